//! The measurement as a line of JSON: flat, except for lists and the stages.

use super::options::Options;
use super::targets::Measured;
use std::fmt::{Display, Write};

/// The line.
pub fn line(options: &Options, measured: &Measured) -> String {
    let found = &measured.found;
    let mut line = Object::default();
    line.text("engine", &options.engine);
    line.value("threads", options.threads);
    line.value("shards", measured.shards);
    line.value("connections", options.connections);
    line.value("batch", options.batch);
    line.value("reads", options.reads);
    line.text("skew", &options.skew);
    line.value("multi_key", options.multi_key);
    line.text("data", &format!("{:?}", options.data).to_lowercase());
    line.value("value_size", options.value_size);
    line.value("keys", options.keys);
    line.text("batching", if options.is_by_read() { "read" } else { "command" });
    line.value("prefetch", options.prefetches());
    line.value("seed", options.seed);
    line.value("seconds", format!("{:.6}", found.seconds));
    line.value("requests", found.requests_of_connections.iter().sum::<u64>());
    line.value("batches", found.batches_ns.len());
    line.list("requests_of_threads", &found.requests_of_threads);
    line.list("requests_of_connections", &found.requests_of_connections);
    line.value("mean_ns", format!("{:.1}", found.batches_ns.mean()));
    for (name, quantile) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        line.value(name, found.batches_ns.value_at_quantile(quantile));
    }
    line.value("max_ns", found.batches_ns.max());
    line.value("voluntary_switches", found.kernel.voluntary);
    line.value("involuntary_switches", found.kernel.involuntary);
    line.value("ran_ns", found.kernel.ran_ns);
    line.value("kept_ns", found.kernel.kept_ns);
    line.value("reply_bytes", found.reply_bytes);
    let waits = found.waits;
    if waits.free + waits.count > 0 {
        let ns = waits.ticks as f64 * 1000.0 / crate::base::tsc::per_us();
        line.value("lock_free", waits.free);
        line.value("lock_waits", waits.count);
        line.value("lock_wait_ns", format!("{ns:.0}"));
    }
    if let Some(lock) = measured.lock {
        // These cover the whole time, with filling and warm-up; the share that waited is the same.
        line.value("lock_free", lock.free);
        line.value("lock_waits", lock.waited);
        line.value("lock_wait_p50_ns", lock.p50_ns);
        line.value("lock_wait_p99_ns", lock.p99_ns);
    }
    for (name, figures) in &measured.stages {
        line.value(&format!("{name}_count"), figures.count);
        line.value(&format!("{name}_mean_ns"), format!("{:.1}", figures.mean_us * 1000.0));
        line.value(&format!("{name}_p99_ns"), format!("{:.1}", figures.p99_us * 1000.0));
    }
    line.end()
}

/// An object while it is written. Names and texts need no escaping: they come from checked options.
#[derive(Default)]
struct Object(String);

impl Object {
    fn value(&mut self, name: &str, value: impl Display) {
        let comma = if self.0.is_empty() { '{' } else { ',' };
        write!(self.0, "{comma}\"{name}\":{value}").expect("a String takes everything");
    }

    fn text(&mut self, name: &str, text: &str) {
        self.value(name, format_args!("\"{text}\""));
    }

    fn list(&mut self, name: &str, values: &[u64]) {
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        self.value(name, format_args!("[{}]", values.join(",")));
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_written_as_json_has_it() {
        let mut object = Object::default();
        object.text("a", "b");
        object.value("c", 1.5);
        object.list("d", &[1, 2]);
        assert_eq!(object.end(), r#"{"a":"b","c":1.5,"d":[1,2]}"#);
    }
}
