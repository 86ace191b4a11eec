//! The name of the node that a server with `cluster-enabled yes` is: it is kept in `--dir`, and is the same after each
//! start.

use crate::base::directories;
use crate::base::randomness::Randomness;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

const FILE_NAME: &str = "shardrace.node";
const LEN: usize = 40;

/// A random name: as many digits as Redis's nodes have.
pub fn random(randomness: &Randomness) -> String {
    randomness.hex(LEN)
}

/// The name kept in a directory, which is created if it is missing; a new name if there is none. The error is for the
/// operator.
pub fn kept_in(dir: &Path, randomness: &Randomness) -> Result<String, String> {
    let path = dir.join(FILE_NAME);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let name = text.trim_end();
            let is_name = name.len() == LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_name.then(|| name.to_owned()).ok_or_else(|| {
                format!(
                    "{} is not the name of a node: {LEN} hexadecimal digits. Remove it for a new name",
                    path.display()
                )
            })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = random(randomness);
            keep(dir, &name)
                .map_err(|error| format!("can't keep the name of the node in {}: {error}", path.display()))?;
            Ok(name)
        }
        Err(error) => Err(format!("can't read {}: {error}", path.display())),
    }
}

/// A crash leaves the whole file, or none.
fn keep(dir: &Path, name: &str) -> io::Result<()> {
    directories::make(dir)?;
    let aside = dir.join(format!("{FILE_NAME}.{}", std::process::id()));
    let mut file = File::create(&aside)?;
    writeln!(file, "{name}")?;
    file.sync_all()?;
    std::fs::rename(&aside, dir.join(FILE_NAME))?;
    File::open(dir)?.sync_all()
}
