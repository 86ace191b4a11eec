//! The machine and the tools of a run, recorded because figures mean nothing without them.

use std::fs;
use std::path::Path;
use std::process::Command;

use procfs::{CpuInfo, Current, LoadAverage, Meminfo};
use serde::{Deserialize, Serialize};

use crate::sources;

/// Where a run was made. Unknown values are `None`, and the report says "unknown".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The model name of the first core.
    pub cpu: Option<String>,
    /// Cores the kernel schedules on.
    pub cores: usize,
    /// The caches that the first core uses, from the smallest: `L1d 32K`. None in older runs, and where the kernel
    /// shows none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
    /// Whether the CPU says that a hypervisor runs it.
    pub virtual_machine: bool,
    /// The frequency governor of the first core; virtual machines seldom show one.
    pub governor: Option<String>,
    /// Memory in all.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// The distribution.
    pub system: Option<String>,
    /// Open files each process may have.
    pub open_files: Option<u64>,
    /// Load average of the last minute when the run began.
    pub load_average: Option<f32>,
    /// The compiler on PATH.
    pub rustc: Option<String>,
    /// The commit of the working directory.
    pub git_sha: Option<String>,
    /// Whether files differed from that commit.
    pub git_dirty: Option<bool>,
    /// The digest of the server's sources in the working directory; none in older runs, and where there are no sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<String>,
    /// How the `experiments` binary was built.
    pub profile: String,
}

impl Environment {
    /// Reads the environment.
    pub(crate) fn record() -> Self {
        let cpu = CpuInfo::current().ok();
        let flags = cpu.as_ref().and_then(|cpu| cpu.flags(0)).unwrap_or_default();
        Self {
            cpu: cpu.as_ref().and_then(|cpu| cpu.model_name(0)).map(str::to_owned),
            cores: cpu.as_ref().map_or(0, CpuInfo::num_cores),
            caches: caches_in(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            virtual_machine: flags.contains(&"hypervisor"),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            memory_bytes: Meminfo::current().ok().map(|memory| memory.mem_total),
            kernel: line_of("/proc/sys/kernel/osrelease"),
            system: system_name(),
            open_files: rlimit::Resource::NOFILE.get_soft().ok(),
            load_average: LoadAverage::current().ok().map(|load| load.one),
            rustc: output_of("rustc", &["--version"]),
            git_sha: output_of("git", &["rev-parse", "HEAD"]),
            git_dirty: output_of("git", &["status", "--porcelain"]).map(|changes| !changes.is_empty()),
            sources: sources::digest(Path::new(".")).ok(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        }
    }

    /// In words, why `other` is another machine; what one of them does not know is not compared.
    pub(crate) fn other_machine(&self, other: &Self) -> Option<String> {
        let known = |one: &Option<String>, other: &Option<String>| one.clone().zip(other.clone());
        let cores = Some((self.cores.to_string(), other.cores.to_string()));
        // A kernel keeps a little more or less of the memory for itself at each start.
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let memory = self.memory_bytes.zip(other.memory_bytes).filter(|(one, other)| one.abs_diff(*other) > one / 50);
        let memory = memory.map(|(one, other)| (mib(one), mib(other)));
        let all = [
            ("CPU", known(&self.cpu, &other.cpu)),
            ("number of cores", cores),
            ("kernel", known(&self.kernel, &other.kernel)),
            ("memory", memory),
        ];
        let (what, (own, others)) =
            all.into_iter().find_map(|(what, pair)| Some((what, pair.filter(|(one, other)| one != other)?)))?;
        Some(format!("its {what} was {own}, and is {others} here"))
    }

    /// The machine and the commit, for a line of text.
    pub(crate) fn machine_and_commit(&self) -> String {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        format!(
            "{}, {} cores{}, Linux {}; commit {:.12}{}",
            known(&self.cpu),
            self.cores,
            if self.virtual_machine { " of a virtual machine" } else { "" },
            known(&self.kernel),
            known(&self.git_sha),
            if self.git_dirty == Some(true) { " with uncommitted changes" } else { "" },
        )
    }
}

/// What the kernel says of each cache in `folder`, in which `index0` is the first.
fn caches_in(folder: &Path) -> Vec<String> {
    (0..).map_while(|index| cache_in(&folder.join(format!("index{index}")))).collect()
}

fn cache_in(folder: &Path) -> Option<String> {
    let [level, kind, size] = ["level", "type", "size"].map(|name| line_of(folder.join(name)));
    let holds = match kind?.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    Some(format!("L{}{holds} {}", level?, size?))
}

fn line_of(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn system_name() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_named_from_the_smallest_and_a_machine_that_shows_none_has_none() {
        let root = tempfile::tempdir().unwrap();
        assert!(caches_in(root.path()).is_empty());
        for (index, (level, kind, size)) in
            [("1", "Data", "32K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")].into_iter().enumerate()
        {
            let folder = root.path().join(format!("index{index}"));
            fs::create_dir(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(caches_in(root.path()), ["L1d 32K", "L1i 32K", "L2 1024K"]);
    }

    #[test]
    fn another_machine_is_one_with_another_cpu_number_of_cores_kernel_or_memory() {
        let here = Environment { memory_bytes: Some(8 << 30), ..Environment::record() };
        let differs = |change: fn(&mut Environment)| {
            let mut other = here.clone();
            change(&mut other);
            here.other_machine(&other)
        };
        assert_eq!(differs(|_| ()), None);
        assert_eq!(differs(|other| other.load_average = Some(99.0)), None);
        assert_eq!(differs(|other| other.memory_bytes = Some((8 << 30) - (1 << 20))), None);
        assert_eq!(differs(|other| other.cpu = None), None);
        assert!(differs(|other| other.cores += 1).unwrap().contains("number of cores"));
        assert!(differs(|other| other.kernel = Some("0.1".to_owned())).unwrap().contains("kernel"));
        assert!(differs(|other| other.memory_bytes = Some(4 << 30)).unwrap().contains("4096 MiB here"));
    }

    #[test]
    fn a_run_from_before_caches_were_recorded_has_none_and_stays_as_it_is() {
        let mut old = serde_json::to_value(Environment { caches: Vec::new(), ..Environment::record() }).unwrap();
        assert_eq!(old.as_object_mut().unwrap().remove("caches"), None);
        assert!(serde_json::from_value::<Environment>(old).unwrap().caches.is_empty());
    }
}
