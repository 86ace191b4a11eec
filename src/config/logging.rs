//! Log lines in Redis's form, `pid:role date.ms level message`, or as JSON.

use crate::base::bus_error;
use crate::config::{Config, Directive};
use parking_lot::Mutex;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use time::OffsetDateTime;
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriter};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, Formatter, SubscriberBuilder};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// Starts logging as configured; RUST_LOG takes precedence over `--loglevel`. Returns the log file, if there is one.
pub fn start(config: &Config) -> Result<Option<LogFile>, String> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter(&config.text(Directive::Loglevel)));
    let log_file = log_file(config)?;
    let writer = match log_file.clone() {
        Some(file) => BoxMakeWriter::new(file),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    // A line that does not fit on a full disk is lost; reporting that elsewhere could fail, too, and would end the
    // process.
    let builder = builder.log_internal_errors(false);
    match config.text(Directive::LogFormat).as_str() {
        "json" => begin(builder.json()),
        _ => begin(builder.event_format(RedisForm)),
    }
    Ok(log_file)
}

/// Replaces the filter of the start. A process has one destination for its lines, and so one filter.
static CHANGE_FILTER: OnceLock<Box<dyn Fn(EnvFilter) + Send + Sync>> = OnceLock::new();

fn begin<N, E, W>(builder: SubscriberBuilder<N, E, EnvFilter, W>)
where
    Formatter<N, E, W>: Subscriber + Send + Sync + 'static,
    SubscriberBuilder<N, E, reload::Layer<EnvFilter, Formatter<N, E, W>>, W>: Into<Dispatch> + SubscriberInitExt,
    N: 'static,
    E: 'static,
    W: 'static,
{
    let builder = builder.with_filter_reloading();
    let handle = builder.reload_handle();
    // The subscriber, and the filter with it, exist until the process ends.
    _ = CHANGE_FILTER.set(Box::new(move |filter| _ = handle.reload(filter)));
    builder.init();
}

/// Logs lines of this level and above from now on.
pub fn set_level(level: &str) {
    // A server in a test logs nothing.
    CHANGE_FILTER.get().into_iter().for_each(|change| change(filter(level)));
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::new(match level {
        "debug" => "trace",
        "verbose" => "debug",
        "warning" => "warn",
        "nothing" => "off",
        _ => "info",
    })
}

fn log_file(config: &Config) -> Result<Option<LogFile>, String> {
    let path = config.path(Directive::Logfile);
    if path.is_empty() {
        return Ok(None);
    }
    if config.text(Directive::Logfile) != path {
        // The directory of the data may not exist yet.
        let dir = config.text(Directive::Dir);
        std::fs::create_dir_all(&dir).map_err(|error| format!("can't create {dir}: {error}"))?;
    }
    let file = open(path.as_ref()).map_err(|error| format!("can't open the log file {path}: {error}"))?;
    Ok(Some(LogFile { path: path.into(), file: Arc::new(Mutex::new(Arc::new(file))) }))
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    bus_error::report_in(file.try_clone()?);
    Ok(file)
}

/// The file for lines until it is opened again: tools that rotate log files have renamed it by then.
#[derive(Debug, Clone)]
pub struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<Arc<File>>>,
}

impl LogFile {
    /// Opens the file that has its name now, for later lines. If that fails, they continue in the old file.
    pub fn reopen(&self) {
        match open(&self.path) {
            Ok(file) => {
                *self.file.lock() = Arc::new(file);
                tracing::info!("The log file {} has been opened anew", self.path.display());
            }
            Err(error) => tracing::warn!("Can't open the log file {} anew: {error}", self.path.display()),
        }
    }
}

impl MakeWriter<'_> for LogFile {
    type Writer = Arc<File>;

    fn make_writer(&self) -> Arc<File> {
        Arc::clone(&self.file.lock())
    }
}

/// Limits how often something is done: clients must not be able to fill the log.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Calls `act`, unless it was called less than `pause` ago.
    pub fn come(&self, pause: Duration, act: impl FnOnce()) {
        let mut last = self.0.lock();
        if last.is_none_or(|last| last.elapsed() > pause) {
            *last = Some(Instant::now());
            act();
        }
    }
}

/// A moment as log lines have it: `21 Nov 2026 10:50:43`, in UTC.
#[derive(Debug, Clone, Copy)]
pub struct Stamp(pub SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from(self.0);
        let (day, month, year) = (at.day(), at.month().to_string(), at.year());
        write!(f, "{day:02} {month:.3} {year} {:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
    }
}

/// `12345:M 21 Nov 2026 10:50:43.123 * message field=value`
struct RedisForm;

impl<S, N> FormatEvent<S, N> for RedisForm
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let sign = match *event.metadata().level() {
            Level::ERROR | Level::WARN => '#',
            Level::INFO => '*',
            Level::DEBUG => '-',
            Level::TRACE => '.',
        };
        let now = SystemTime::now();
        let millisecond = OffsetDateTime::from(now).millisecond();
        write!(out, "{}:M {}.{millisecond:03} {sign} ", std::process::id(), Stamp(now))?;
        context.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}
