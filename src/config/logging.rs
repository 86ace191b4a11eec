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
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriter};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, Formatter, SubscriberBuilder};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

/// Starts logging as the configuration says; RUST_LOG takes precedence over `--loglevel`.
/// Gives the file that the lines go to, where they go to one.
pub fn start(config: &Config) -> Result<Option<LogFile>, String> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter(&config.text(Directive::Loglevel)));
    let log_file = log_file(config)?;
    let writer = match log_file.clone() {
        Some(file) => BoxMakeWriter::new(file),
        None => BoxMakeWriter::new(std::io::stderr),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    // A line that a full disk does not take is lost; to say so elsewhere would end the process where that is full, too.
    let builder = builder.log_internal_errors(false);
    match config.text(Directive::LogFormat).as_str() {
        "json" => begin(builder.json()),
        _ => begin(builder.event_format(RedisForm)),
    }
    Ok(log_file)
}

/// Puts another filter in the place of that of the start. The lines of a process have one place to go, so it has one.
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
    // The subscriber, and the filter with it, is there until the process ends.
    _ = CHANGE_FILTER.set(Box::new(move |filter| _ = handle.reload(filter)));
    builder.init();
}

/// Lets lines of this level, and of those above it, be logged from now on.
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
        // The directory of the data may not be there yet.
        let dir = config.text(Directive::Dir);
        std::fs::create_dir_all(&dir).map_err(|error| format!("can't create {dir}: {error}"))?;
    }
    let file = open(path.as_ref()).map_err(|error| format!("can't open the log file {path}: {error}"))?;
    Ok(Some(LogFile { path: path.into(), file: Arc::new(Mutex::new(Arc::new(file))) }))
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    bus_error::tell_in(file.try_clone()?);
    Ok(file)
}

/// The file that lines go to, until it is opened anew: what rotates log files has given it another name by then.
#[derive(Debug, Clone)]
pub struct LogFile {
    path: PathBuf,
    file: Arc<Mutex<Arc<File>>>,
}

impl LogFile {
    /// Lets the lines go on in the file that has its name now. Where that cannot be opened, they go where they went.
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

/// Lets something happen seldom: what any client can cause must not fill the log.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Does something unless it was done so short a time ago.
    pub fn come(&self, pause: Duration, act: impl FnOnce()) {
        let mut last = self.0.lock();
        if last.is_none_or(|last| last.elapsed() > pause) {
            *last = Some(Instant::now());
            act();
        }
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
