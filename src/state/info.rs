//! INFO and STATS: the properties, counters and contents of the server.

use crate::base::clock::{uptime, uptime_ms};
use crate::commands::COMMANDS;
use crate::config::Directive;
use crate::engine::{DatabaseMetrics, EngineMetrics, LatencySummary};
use crate::keyspace::Settings;
use crate::rdb::REDIS_VERSION;
use crate::replication::{Introduction, LinkState, Master, Phase, Replica, Role, Transfer};
use crate::state::Server;
use crate::state::memory::MemoryUse;
use crate::stats::command_stats::Figures;
use crate::stats::stage_latency::Stage;
use Contents::{OfOwners, OfServer};
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clock of key uses has 24 bits in Redis, and is shown so.
const LRU_CLOCK_PERIOD_S: u64 = 1 << 24;

type Fields = Vec<(String, String)>;
type Section = (&'static str, Contents);

/// What the fields of a section are made from.
enum Contents {
    OfServer(fn(&Server) -> Fields),
    /// Also from what the owners of the data say.
    OfOwners(fn(&Server, &EngineMetrics) -> Fields),
}

/// The sections in order.
static SECTIONS: [Section; 15] = [
    ("Server", OfServer(server_section)),
    ("Clients", OfServer(clients_section)),
    ("Memory", OfOwners(memory_section)),
    ("Persistence", OfOwners(persistence_section)),
    ("Stats", OfOwners(stats_section)),
    ("Replication", OfServer(replication_section)),
    ("CPU", OfServer(cpu_section)),
    ("Modules", OfServer(modules_section)),
    ("Commandstats", OfServer(commandstats_section)),
    ("Errorstats", OfServer(errorstats_section)),
    ("Latencystats", OfServer(latencystats_section)),
    ("Cluster", OfServer(cluster_section)),
    ("Engine", OfOwners(engine_section)),
    ("Stages", OfServer(stages_section)),
    ("Keyspace", OfOwners(keyspace_section)),
];

/// The sections that are shown only by name, or with all.
const LARGE: [&str; 3] = ["Commandstats", "Latencystats", "Stages"];

/// The text of INFO: the named sections, or those that are shown by default.
pub fn render(server: &Server, wanted: &[String]) -> String {
    let (mut text, mut metrics) = (String::new(), None);
    for (name, contents) in chosen(wanted) {
        let gap = if text.is_empty() { "" } else { "\r\n" };
        write!(text, "{gap}# {name}\r\n").expect("writing to memory does not fail");
        let fields = match contents {
            OfServer(fields) => fields(server),
            OfOwners(fields) => fields(server, metrics.get_or_insert_with(|| server.metrics())),
        };
        for (field, value) in fields {
            write!(text, "{field}:{value}\r\n").expect("writing to memory does not fail");
        }
    }
    text
}

/// Whether the owners of the data are asked for some of these sections.
pub fn asks_owners(wanted: &[String]) -> bool {
    chosen(wanted).any(|(_, contents)| matches!(contents, OfOwners(_)))
}

fn chosen(wanted: &[String]) -> impl Iterator<Item = &'static Section> {
    let is_named = |names: &[&str]| wanted.iter().any(|name| names.contains(&name.as_str()));
    let all = is_named(&["all", "everything"]);
    let default = all || wanted.is_empty() || is_named(&["default"]);
    SECTIONS.iter().filter(move |(name, _)| {
        let by_default = if LARGE.contains(name) { all } else { default };
        by_default || wanted.contains(&name.to_lowercase())
    })
}

/// The figures of STATS: those of the engine, and those of the server.
pub fn engine_figures(server: &Server) -> Fields {
    let metrics = server.metrics();
    let mut figures = engine_section(server, &metrics);
    figures.extend(stats_section(server, &metrics));
    figures.extend(persistence_section(server, &metrics));
    figures
}

fn fields<const N: usize>(fields: [(&str, &dyn std::fmt::Display); N]) -> Fields {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

fn server_section(server: &Server) -> Fields {
    let uptime_s = server.started.elapsed().as_secs();
    let hz = server.config.number(Directive::Hz);
    let path = |path: io::Result<PathBuf>| path.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let mut section = fields([
        ("redis_version", &REDIS_VERSION),
        ("shardrace_version", &env!("CARGO_PKG_VERSION")),
        ("redis_build_id", &env!("SHARDRACE_SOURCES")),
        ("redis_mode", &mode(server.settings())),
        ("os", &server.os),
        ("arch_bits", &usize::BITS),
        ("monotonic_clock", &"POSIX clock_gettime"),
        ("multiplexing_api", &"epoll"),
        ("process_id", &std::process::id()),
        ("process_supervised", &server.supervisor.name()),
        ("run_id", &server.run_id),
        ("tcp_port", &server.listening.main_port()),
        ("server_time_usec", &server.clock.now_us()),
        ("uptime_in_seconds", &uptime_s),
        ("uptime_in_days", &(uptime_s / 86400)),
        ("hz", &hz),
        ("configured_hz", &hz),
        ("lru_clock", &(server.clock.now_ms() / 1000 % LRU_CLOCK_PERIOD_S)),
        ("executable", &path(std::env::current_exe())),
        ("config_file", &server.config.file().map(|file| path(std::path::absolute(file))).unwrap_or_default()),
        ("io_threads_active", &server.threads),
    ]);
    if let Some(until_ms) = server.stop.waits_until_ms() {
        let left_ms = until_ms.saturating_sub(uptime_ms());
        section.push(("shutdown_in_milliseconds".to_owned(), left_ms.to_string()));
    }
    let listeners = server.listening.described().into_iter().enumerate();
    section.extend(listeners.map(|(index, described)| (format!("listener{index}"), described)));
    section
}

fn clients_section(server: &Server) -> Fields {
    let figures = server.clients.figures();
    fields([
        ("connected_clients", &figures.connected),
        ("cluster_connections", &0),
        ("maxclients", &server.config.number(Directive::Maxclients)),
        ("client_recent_max_input_buffer", &figures.input_max),
        ("client_recent_max_output_buffer", &figures.output_max),
        ("blocked_clients", &figures.blocked),
        ("tracking_clients", &server.pubsub.tracking().counts().clients),
        ("clients_in_timeout_table", &figures.with_timeout),
        ("total_blocking_keys", &figures.awaited_keys),
        ("total_blocking_keys_on_nokey", &figures.ending_keys),
    ])
}

fn memory_section(server: &Server, metrics: &EngineMetrics) -> Fields {
    // Together, so that what the log writes meanwhile is in both or in neither.
    let uncounted = server.uncounted_memory();
    let used = MemoryUse::of(server, metrics);
    let memory = used.all;
    let scripting = &server.services.scripting;
    let (scripts, _) = scripting.scripts.size();
    let lua = scripting.lua_bytes();
    let (libraries, functions, _) = scripting.functions.libraries().size();
    let system = crate::base::allocator::of_system();
    let maxmemory = server.config.number(Directive::Maxmemory);
    let freeing = &server.instance.freeing;
    let mut section = fields([
        ("used_memory", &memory.allocated),
        ("used_memory_human", &human(memory.allocated)),
        ("used_memory_rss", &memory.resident),
        ("used_memory_rss_human", &human(memory.resident)),
        ("used_memory_peak", &memory.peak),
        ("used_memory_peak_human", &human(memory.peak)),
        ("used_memory_peak_perc", &percent(memory.allocated, memory.peak)),
        ("used_memory_overhead", &used.overhead()),
        ("used_memory_startup", &used.startup),
        ("used_memory_dataset", &used.dataset()),
        ("used_memory_dataset_perc", &percent(used.dataset(), used.added())),
        ("allocator_allocated", &memory.allocated),
        ("allocator_active", &memory.active),
        ("allocator_resident", &memory.mapped),
        ("total_system_memory", &system),
        ("total_system_memory_human", &human(system)),
        ("maxmemory", &maxmemory),
        ("maxmemory_human", &human(maxmemory)),
        ("maxmemory_policy", &server.config.text(Directive::MaxmemoryPolicy)),
        ("allocator_frag_ratio", &ratio(memory.active, memory.allocated)),
        ("allocator_frag_bytes", &difference(memory.active, memory.allocated)),
        ("allocator_rss_ratio", &ratio(memory.mapped, memory.active)),
        ("allocator_rss_bytes", &difference(memory.mapped, memory.active)),
        ("rss_overhead_ratio", &ratio(memory.resident, memory.mapped)),
        ("rss_overhead_bytes", &difference(memory.resident, memory.mapped)),
        ("mem_fragmentation_ratio", &ratio(memory.resident, memory.allocated)),
        ("mem_fragmentation_bytes", &difference(memory.resident, memory.allocated)),
        ("mem_not_counted_for_evict", &uncounted),
        ("mem_clients_normal", &used.clients),
        ("mem_clients_slaves", &used.replicas),
        ("mem_replication_backlog", &used.backlog),
        ("mem_total_replication_buffers", &(used.backlog + used.replicas)),
        ("mem_aof_buffer", &used.log),
        ("mem_allocator", &crate::base::allocator::ALLOCATOR),
        ("number_of_cached_scripts", &scripts),
        ("used_memory_scripts_eval", &used.scripts),
        ("used_memory_lua", &lua),
        ("used_memory_lua_human", &human(lua as u64)),
        ("used_memory_vm_eval", &lua),
        ("used_memory_vm_total", &lua),
        ("used_memory_vm_total_human", &human(lua as u64)),
        ("number_of_functions", &functions),
        ("number_of_libraries", &libraries),
        ("used_memory_functions", &used.functions),
        ("used_memory_scripts", &(used.scripts + used.functions)),
        ("used_memory_scripts_human", &human(used.scripts + used.functions)),
        ("lazyfree_pending_objects", &freeing.pending()),
        ("lazyfreed_objects", &freeing.freed()),
    ]);
    section.extend(zeros(&[
        // Functions run in the Lua states of scripts; there are no other nodes; nothing is defragmented.
        "used_memory_vm_functions",
        "mem_cluster_links",
        "active_defrag_running",
    ]));
    section
}

/// Fields for features that do not exist here.
fn zeros<'a>(names: &'a [&'a str]) -> impl Iterator<Item = (String, String)> + 'a {
    names.iter().map(|name| ((*name).to_owned(), "0".to_owned()))
}

/// Bytes for humans: 1.50M
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for larger in UNITS {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{scaled:.2}{unit}") }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

fn ratio(of: u64, to: u64) -> String {
    format!("{:.2}", of as f64 / to.max(1) as f64)
}

fn difference(of: u64, to: u64) -> i128 {
    i128::from(of) - i128::from(to)
}

fn persistence_section(server: &Server, metrics: &EngineMetrics) -> Fields {
    let sum = |figure: fn(&crate::aof::SegmentMetrics) -> u64| metrics.segments.iter().map(figure).sum::<u64>();
    let worst = |figure: fn(&crate::aof::SegmentMetrics) -> u64| metrics.segments.iter().map(figure).max().unwrap_or(0);
    let changes = metrics.keyspace.changes.saturating_sub(server.services.saves.changes_saved());
    let rewriting = server.rewriting.metrics();
    let totals = server.totals_since_reset(metrics);
    let (loaded_keys, loaded_expired) = server.services.saves.loaded();
    let mut persistence = fields([
        ("loading", &u8::from(server.is_loading())),
        ("async_loading", &0),
        // Nothing is forked.
        ("current_cow_peak", &0),
        ("current_cow_size", &0),
        ("current_cow_size_age", &0),
        ("current_fork_perc", &"0.00"),
        ("rdb_changes_since_last_save", &changes),
        ("rdb_bgsave_in_progress", &u8::from(server.services.saves.is_in_progress())),
        ("rdb_last_save_time", &server.services.saves.last_save_s()),
        ("rdb_last_bgsave_status", &if server.services.saves.has_failed() { "err" } else { "ok" }),
        ("rdb_last_bgsave_time_sec", &server.services.saves.took_s()),
        ("rdb_current_bgsave_time_sec", &server.services.saves.takes_s()),
        ("rdb_saves", &totals.snapshots),
        // Nothing is forked.
        ("rdb_last_cow_size", &0),
        ("rdb_last_load_keys_expired", &loaded_expired),
        ("rdb_last_load_keys_loaded", &loaded_keys),
        ("aof_enabled", &u8::from(server.has_log())),
        ("aof_last_write_status", &if server.log_control.is_failing() { "err" } else { "ok" }),
        ("aof_write_failures", &server.log_control.failures()),
        ("aof_rewrite_in_progress", &u8::from(rewriting.is_running)),
        ("aof_rewrite_scheduled", &u8::from(rewriting.is_scheduled)),
        ("aof_last_rewrite_time_sec", &rewriting.last_s),
        ("aof_current_rewrite_time_sec", &rewriting.current_s),
        ("aof_last_bgrewrite_status", &if rewriting.last_failure.is_some() { "err" } else { "ok" }),
        ("aof_last_bgrewrite_error", &rewriting.last_failure.unwrap_or_default()),
        ("aof_rewrites", &totals.rewrites),
        ("aof_rewrites_consecutive_failures", &rewriting.failures_in_a_row),
        ("aof_last_cow_size", &0),
        ("aof_pending_rewrite", &u8::from(rewriting.is_scheduled)),
        ("module_fork_in_progress", &0),
        ("module_fork_last_cow_size", &0),
        ("aof_fsync_policy", &server.config.text(Directive::Appendfsync)),
        ("aof_segments", &metrics.segments.len()),
        ("aof_current_size", &sum(|segment| segment.file_bytes)),
        ("aof_base_size", &rewriting.base_size),
        ("aof_buffer_length", &sum(|segment| segment.buffered_bytes)),
        ("aof_unsynced_length", &sum(|segment| segment.unsynced_bytes)),
        ("aof_pending_bio_fsync", &sum(|segment| segment.is_syncing.into())),
        ("aof_delayed_fsync", &totals.delayed_fsyncs),
        ("aof_fsyncs", &sum(|segment| segment.fsyncs)),
        ("aof_fsync_us_p50", &worst(|segment| segment.fsync_us[0])),
        ("aof_fsync_us_p99", &worst(|segment| segment.fsync_us[1])),
        ("aof_fsync_us_max", &worst(|segment| segment.fsync_us[2])),
        ("aof_fsync_bytes_p50", &worst(|segment| segment.fsync_bytes[0])),
        ("aof_fsync_bytes_p99", &worst(|segment| segment.fsync_bytes[1])),
        ("aof_fsync_bytes_max", &worst(|segment| segment.fsync_bytes[2])),
    ]);
    if server.is_loading() {
        persistence.extend(loading_figures(server));
    }
    persistence
}

/// How much of the log has been read. The total grows while files are found.
fn loading_figures(server: &Server) -> Fields {
    let (total, loaded) = server.log_control.loading();
    let elapsed_s = server.started.elapsed().as_secs();
    let eta_s = if elapsed_s == 0 { 1 } else { elapsed_s * (total - loaded) / (loaded + 1) };
    let percent = loaded as f64 / total.max(1) as f64 * 100.0;
    fields([
        ("loading_start_time", &(server.clock.now_ms() / 1000).saturating_sub(elapsed_s)),
        ("loading_total_bytes", &total),
        ("loading_rdb_used_mem", &0),
        ("loading_loaded_bytes", &loaded),
        ("loading_loaded_perc", &format!("{percent:.2}")),
        ("loading_eta_seconds", &eta_s),
    ])
}

fn stats_section(server: &Server, metrics: &EngineMetrics) -> Fields {
    let totals = server.totals_since_reset(metrics);
    let names = server.pubsub.counts();
    let tracked = server.pubsub.tracking().counts();
    let counts = &server.replication.counts;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let per_s = |rate: &AtomicU64| format!("{:.2}", rate.load(Ordering::Relaxed) as f64 / 1024.0);
    let mut section = fields([
        ("total_connections_received", &totals.connections),
        ("total_commands_processed", &totals.commands),
        ("instantaneous_ops_per_sec", &server.stats.ops_per_sec.load(Ordering::Relaxed)),
        ("total_net_input_bytes", &totals.input_bytes),
        ("total_net_output_bytes", &totals.output_bytes),
        ("instantaneous_input_kbps", &per_s(&server.stats.input_per_sec)),
        ("instantaneous_output_kbps", &per_s(&server.stats.output_per_sec)),
        ("instantaneous_input_repl_kbps", &per_s(&server.stats.master_per_sec)),
        ("instantaneous_output_repl_kbps", &per_s(&server.stats.replica_per_sec)),
        ("total_net_repl_input_bytes", &totals.master_bytes),
        ("total_net_repl_output_bytes", &totals.replica_bytes),
        ("sync_full", &count(&counts.full)),
        ("sync_partial_ok", &count(&counts.partial)),
        ("sync_partial_err", &count(&counts.refused)),
        ("rejected_connections", &totals.rejected),
        ("client_output_buffer_limit_disconnections", &totals.over_limit),
        ("total_error_replies", &server.instance.calls.errors().iter().map(|(_, count)| count).sum::<u64>()),
        ("expired_keys", &totals.expired),
        ("expire_lag_ms", &metrics.expire_lag_ms),
        ("evicted_keys", &totals.evicted),
        ("total_eviction_exceeded_time", &totals.exceeded_ms),
        ("current_eviction_exceeded_time", &server.instance.pressure.exceeded(uptime()).1.as_millis()),
        ("keyspace_hits", &totals.hits),
        ("keyspace_misses", &totals.misses),
        ("pubsub_channels", &names.channels),
        ("pubsub_patterns", &names.patterns),
        ("pubsubshard_channels", &names.shard_channels),
        ("acl_access_denied_auth", &totals.denied[0]),
        ("acl_access_denied_cmd", &totals.denied[1]),
        ("acl_access_denied_key", &totals.denied[2]),
        ("acl_access_denied_channel", &totals.denied[3]),
    ]);
    section.extend(fields([("evicted_clients", &totals.evicted_clients)]));
    // Nothing is forked or defragmented, and there are no I/O threads.
    section.extend(zeros(&["latest_fork_usec", "total_forks"]));
    section.extend(fields([("migrate_cached_sockets", &server.links.len())]));
    section.extend(zeros(&[
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]));
    section.extend(fields([
        ("tracking_total_keys", &tracked.keys),
        ("tracking_total_items", &tracked.items),
        ("tracking_total_prefixes", &tracked.prefixes),
    ]));
    section.extend(zeros(&["unexpected_error_replies", "io_threaded_reads_processed", "io_threaded_writes_processed"]));
    section
}

fn replication_section(server: &Server) -> Fields {
    let history = server.replication.history();
    let second_offset = history.second_offset.map_or(-1, i128::from);
    let mut section = match server.replication.role() {
        Role::Master => fields([("role", &"master")]),
        Role::Replica(master) => replica_fields(server, &master),
    };
    let replicas = server.replication.replicas();
    section.extend(fields([("connected_slaves", &replicas.len())]));
    section.extend(replicas.iter().enumerate().map(|(number, replica)| (format!("slave{number}"), described(replica))));
    let backlog = server.replication.stream.backlog();
    section.extend(good_replicas(server));
    section.extend(fields([
        ("master_failover_state", &server.replication.failover_state()),
        ("master_replid", &history.id),
        ("master_replid2", &history.second_id),
        ("master_repl_offset", &server.replication.offset()),
        ("second_repl_offset", &second_offset),
        ("repl_backlog_active", &u8::from(backlog.is_active)),
        ("repl_backlog_size", &backlog.size),
        ("repl_backlog_first_byte_offset", &backlog.first),
        ("repl_backlog_histlen", &backlog.len),
    ]));
    section
}

/// How many replicas count for writes, if a minimum is configured.
fn good_replicas(server: &Server) -> Option<(String, String)> {
    let max_lag_s = server.config.number(Directive::MinReplicasMaxLag);
    let is_wanted = server.config.number(Directive::MinReplicasToWrite) > 0 && max_lag_s > 0;
    let count = || server.replication.good_replicas(uptime_ms(), max_lag_s);
    is_wanted.then(|| ("min_slaves_good_slaves".to_owned(), count().to_string()))
}

/// A replica, in the form of INFO.
fn described(replica: &Replica) -> String {
    let Introduction { address, port, .. } = &replica.introduction;
    let lag_s = if replica.phase() == Phase::Online { replica.lag_s(uptime_ms()) } else { 0 };
    format!(
        "ip={},port={port},state={},offset={},lag={lag_s}",
        address.as_deref().unwrap_or_default(),
        replica.phase().name(),
        replica.acknowledged()
    )
}

fn replica_fields(server: &Server, master: &Master) -> Fields {
    let is_up = master.link == LinkState::Connected;
    let since_s = |then_ms: u64| uptime_ms().saturating_sub(then_ms) / 1000;
    let (heard_ms, down_since_ms) = server.replication.heard_of_master();
    let heard_s = if is_up { since_s(heard_ms) as i64 } else { -1 };
    let offset = server.replication.offset();
    let mut section = fields([
        ("role", &"slave"),
        ("master_host", &master.host),
        ("master_port", &master.port),
        ("master_link_status", &if is_up { "up" } else { "down" }),
        ("master_last_io_seconds_ago", &heard_s),
        ("master_sync_in_progress", &u8::from(master.link == LinkState::Sync)),
        ("slave_read_repl_offset", &server.replication.read_offset()),
        ("slave_repl_offset", &offset),
    ]);
    if let Some(Transfer { bytes, received }) = server.replication.transfer() {
        let total = bytes.unwrap_or(0);
        let percent = if total == 0 { 0.0 } else { received as f64 / total as f64 * 100.0 };
        section.extend(fields([
            ("master_sync_total_bytes", &total),
            ("master_sync_read_bytes", &received),
            ("master_sync_left_bytes", &(i128::from(total) - i128::from(received))),
            ("master_sync_perc", &format!("{percent:.2}")),
            ("master_sync_last_io_seconds_ago", &since_s(heard_ms)),
        ]));
    }
    if !is_up {
        let down_s = down_since_ms.map_or(-1, |then_ms| since_s(then_ms) as i64);
        section.extend(fields([("master_link_down_since_seconds", &down_s)]));
    }
    let is_on = |directive| u8::from(server.config.is_on(directive));
    section.extend(fields([
        ("slave_priority", &server.config.number(Directive::ReplicaPriority)),
        ("slave_read_only", &is_on(Directive::ReplicaReadOnly)),
        ("replica_announced", &is_on(Directive::ReplicaAnnounced)),
    ]));
    section
}

/// The mode of the server, in the terms of clients.
pub fn mode(settings: &Settings) -> &'static str {
    if settings.is_cluster() { "cluster" } else { "standalone" }
}

fn cluster_section(server: &Server) -> Fields {
    fields([("cluster_enabled", &u8::from(server.settings().is_cluster()))])
}

fn cpu_section(_server: &Server) -> Fields {
    let process = procfs::process::Process::myself();
    let per_s = procfs::ticks_per_second() as f64;
    let seconds = |ticks: u64| format!("{:.6}", ticks as f64 / per_s);
    let child = |ticks: i64| seconds(u64::try_from(ticks).unwrap_or(0));
    let stat = process.as_ref().ok().and_then(|process| process.stat().ok());
    let times = stat.map(|stat| (stat.stime, stat.utime, stat.cstime, stat.cutime));
    let (system, user, system_of_children, user_of_children) = times.unwrap_or_default();
    let main = process.and_then(|process| process.task_from_tid(process.pid)?.stat());
    let (system_of_main, user_of_main) = main.map(|stat| (stat.stime, stat.utime)).unwrap_or_default();
    fields([
        ("used_cpu_sys", &seconds(system)),
        ("used_cpu_user", &seconds(user)),
        ("used_cpu_sys_children", &child(system_of_children)),
        ("used_cpu_user_children", &child(user_of_children)),
        ("used_cpu_sys_main_thread", &seconds(system_of_main)),
        ("used_cpu_user_main_thread", &seconds(user_of_main)),
    ])
}

/// There are no modules.
fn modules_section(_server: &Server) -> Fields {
    Fields::new()
}

fn commandstats_section(server: &Server) -> Fields {
    let line = |(id, figures): (usize, Figures)| {
        let us = figures.us();
        let per_call = if figures.calls == 0 { 0.0 } else { us as f64 / figures.calls as f64 };
        let value = format!(
            "calls={},usec={us},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
            figures.calls, figures.rejected, figures.failed
        );
        (format!("cmdstat_{}", COMMANDS[id].name), value)
    };
    server.instance.calls.of_all().map(line).collect()
}

fn errorstats_section(server: &Server) -> Fields {
    let line = |(code, count): (String, u64)| (format!("errorstat_{code}"), format!("count={count}"));
    server.instance.calls.errors().into_iter().map(line).collect()
}

fn latencystats_section(server: &Server) -> Fields {
    let percentiles = server.config.latency_percentiles();
    let per_us = crate::base::tsc::per_us();
    let line = |(id, figures): (usize, Figures)| {
        let of = |percentile: &f64| {
            let us = figures.histogram.quantile(percentile / 100.0) as f64 / per_us;
            format!("p{percentile}={us:.3}")
        };
        let value = percentiles.iter().map(of).collect::<Vec<_>>().join(",");
        (format!("latency_percentiles_usec_{}", COMMANDS[id].name), value)
    };
    server.instance.calls.of_all().filter(|(_, figures)| !figures.histogram.is_empty()).map(line).collect()
}

fn engine_section(server: &Server, metrics: &EngineMetrics) -> Fields {
    let mut figures = fields([
        ("engine", &metrics.engine),
        ("shards", &metrics.shards.len()),
        ("threads", &server.threads),
        ("placement", &server.config.text(Directive::Placement)),
        ("local", &server.config.text(Directive::Local)),
        ("multi_key", &server.config.text(Directive::MultiKey)),
        ("batching", &server.config.text(Directive::Batching)),
        ("prefetch", &server.config.text(Directive::Prefetch)),
        ("engine_commands", &metrics.total(|shard| shard.commands)),
    ]);
    match metrics.engine {
        "actor" => figures.extend(actor_figures(metrics)),
        "dashmap" => figures.extend(fields([("map_shards", &metrics.map_shards)])),
        _ => {}
    }
    if let Some(waits) = metrics.lock_waits {
        figures.extend(lock_figures(metrics.lock_free, waits));
    }
    figures
}

fn stages_section(server: &Server) -> Fields {
    let mut stages = fields([("stages_sample", &server.config.number(Directive::StagesSample))]);
    stages.extend(
        Stage::ALL.map(|stage| (format!("stage_{}", stage.name()), server.instance.stages.figures(stage).to_string())),
    );
    stages
}

fn actor_figures(metrics: &EngineMetrics) -> Fields {
    let shard_line = |(index, shard): (usize, &crate::engine::ShardMetrics)| {
        let line = format!(
            "keys={},expires={},commands={},queue_depth={},largest_batch={},batches={},in_place={},turns={}",
            shard.keys,
            shard.expires,
            shard.commands,
            shard.queue_depth,
            shard.largest_batch,
            shard.batches,
            shard.in_place,
            shard.turns
        );
        (format!("shard{index}"), line)
    };
    metrics.shards.iter().enumerate().map(shard_line).collect()
}

fn lock_figures(free: u64, waits: LatencySummary) -> Fields {
    fields([
        ("lock_acquired_free", &free),
        ("lock_acquired_after_wait", &waits.count),
        ("lock_wait_ns_p50", &waits.p50),
        ("lock_wait_ns_p99", &waits.p99),
        ("lock_wait_ns_p999", &waits.p999),
        ("lock_wait_ns_max", &waits.max),
    ])
}

fn keyspace_section(server: &Server, metrics: &EngineMetrics) -> Fields {
    let now_ms = server.clock.now_ms();
    let databases = metrics.databases.iter().enumerate().filter(|(_, database)| database.keys > 0);
    let line = |(number, database): (usize, &DatabaseMetrics)| {
        let DatabaseMetrics { keys, expires, .. } = database;
        (format!("db{number}"), format!("keys={keys},expires={expires},avg_ttl={}", database.mean_ttl_ms(now_ms)))
    };
    databases.map(line).collect()
}
