//! Log lines in Redis's form, `pid:role date.ms level message`, or as JSON.

use crate::bus_error;
use crate::config::{Config, Directive};
use std::fmt;
use std::fs::OpenOptions;
use std::time::SystemTime;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts logging as the configuration says; RUST_LOG takes precedence over `--loglevel`.
pub fn start(config: &Config) -> Result<(), String> {
    let level = match config.text(Directive::Loglevel).as_str() {
        "debug" => "trace",
        "verbose" => "debug",
        "warning" => "warn",
        _ => "info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer(config)?).with_ansi(false);
    // A line that a full disk does not take is lost; to say so elsewhere would end the process where that is full, too.
    let builder = builder.log_internal_errors(false);
    match config.text(Directive::LogFormat).as_str() {
        "json" => builder.json().init(),
        _ => builder.event_format(RedisForm).init(),
    }
    Ok(())
}

fn writer(config: &Config) -> Result<BoxMakeWriter, String> {
    let path = config.text(Directive::Logfile);
    if path.is_empty() {
        return Ok(BoxMakeWriter::new(std::io::stderr));
    }
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.map_err(|error| format!("can't open the log file {path}: {error}"))?;
    let same = file.try_clone().map_err(|error| format!("can't open the log file {path}: {error}"))?;
    bus_error::tell_in(same);
    Ok(BoxMakeWriter::new(file))
}

/// `12345:M 21 Nov 2026 10:50:43.123 * message field=value`
struct RedisForm;

impl<S, N> FormatEvent<S, N> for RedisForm
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mark = match *event.metadata().level() {
            Level::ERROR | Level::WARN => '#',
            Level::INFO => '*',
            Level::DEBUG => '-',
            Level::TRACE => '.',
        };
        let now = time::OffsetDateTime::from(SystemTime::now());
        write!(
            out,
            "{}:M {:02} {:.3} {} {:02}:{:02}:{:02}.{:03} {mark} ",
            std::process::id(),
            now.day(),
            now.month().to_string(),
            now.year(),
            now.hour(),
            now.minute(),
            now.second(),
            now.millisecond()
        )?;
        context.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
