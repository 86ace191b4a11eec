//! Publishing a file of `experiments scaling`: the documents that show what follows from it are written anew.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::base::files::write_whole;
use crate::judging::claims::Claims;
use crate::publishing::document::{self, Library};
use crate::publishing::locks_or_actors::PAGE;
use crate::publishing::{queries, seal};

/// The documents that a new file is for.
const DOCUMENTS: [&str; 2] = ["README.md", PAGE];

/// Lets [`DOCUMENTS`] name a file, relative to `root`, and writes what follows from it: their text and the figure.
/// Returns what was written.
pub fn publish(root: &Path, file: &Path, claims: &[Claims]) -> Result<Vec<PathBuf>> {
    let mut library = Library::new(root, claims.to_vec());
    // All of them, before one is written.
    let mut texts = Vec::new();
    for path in DOCUMENTS.map(PathBuf::from) {
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
        let filled = document::filled(&mut library, &path, &queries::with_driven(&text, file), None);
        let filled = filled.and_then(|filled| seal::renewed(&text, &filled));
        let filled = filled.with_context(|| format!("in {}", path.display()))?;
        texts.push((seal::with_digests(root, &path, &filled)?, path));
    }
    let mut written = Vec::new();
    for (text, path) in texts {
        write_whole(&root.join(&path), &text)?;
        written.push(path);
    }
    written.extend(library.write_made()?);
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publishing::locks_or_actors::tests::{invented, with_variant};
    use crate::publishing::verify;
    use crate::scaling::record::Recorded;

    /// A repository with the two documents, and a file of the driver.
    fn repository(recorded: &Recorded) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (root, file) = (folder.path(), PathBuf::from("experiments/results/scaling-x/scaling.jsonl"));
        recorded.write(&root.join(&file)).unwrap();
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::copy(project.join(PAGE), root.join(PAGE)).unwrap();
        let figure = "<!--lab driven none figure docs/images/locks-or-actors.svg-->x<!--/lab-->";
        let readme = format!("# It\n\n{figure}\n\n<!--lab driven none answer-->x<!--/lab-->\n");
        let readme = seal::sealed(root, Path::new("README.md"), &readme, "58641ee").unwrap();
        fs::write(root.join("README.md"), readme).unwrap();
        (folder, file)
    }

    fn differences(root: &Path) -> Vec<String> {
        verify::all(root, &root.join("experiments/results"), &[], &[]).unwrap().differences
    }

    #[test]
    fn one_command_publishes_a_file_and_a_changed_digit_anywhere_is_caught() {
        let (folder, file) = repository(&invented(7));
        let root = folder.path();
        let written = publish(root, &file, &[]).unwrap();
        let image = "docs/images/locks-or-actors.svg";
        assert_eq!(written, ["README.md", PAGE, image].map(PathBuf::from));
        assert_eq!(differences(root), Vec::<String>::new());
        let page = fs::read_to_string(root.join(PAGE)).unwrap();
        assert!(!page.contains("not measured yet") && page.contains("](images/locks-or-actors.svg)"), "{page}");
        let raw = file.to_str().unwrap();
        for (path, from, to) in [
            ("README.md", "**mutex** (1.10", "**mutex** (1.20"),
            (PAGE, "up to 1.10", "up to 1.11"),
            (image, "<circle class=\"e0\" cx=\"8", "<circle class=\"e0\" cx=\"9"),
            (raw, "\"p50_ns\":3", "\"p50_ns\":4"),
        ] {
            let whole = fs::read_to_string(root.join(path)).unwrap();
            let changed = whole.replacen(from, to, 1);
            assert_ne!(whole, changed, "{path} has no {from}");
            fs::write(root.join(path), changed).unwrap();
            let found = differences(root);
            assert!(found.iter().any(|one| one.contains(path)), "{path}: {found:?}");
            fs::write(root.join(path), whole).unwrap();
        }
        fs::write(root.join("docs/images/other.svg"), "<svg/>").unwrap();
        assert_eq!(differences(root), ["docs/images/other.svg: no query of a document makes it"]);
    }

    #[test]
    fn publishing_another_file_replaces_the_first_and_the_same_one_changes_nothing() {
        let (folder, file) = repository(&invented(7));
        let root = folder.path();
        publish(root, &file, &[]).unwrap();
        let first = fs::read_to_string(root.join(PAGE)).unwrap();
        publish(root, &file, &[]).unwrap();
        assert_eq!(fs::read_to_string(root.join(PAGE)).unwrap(), first);
        let other = PathBuf::from("experiments/results/scaling-y/scaling.jsonl");
        with_variant(invented(3), 1.0).write(&root.join(&other)).unwrap();
        publish(root, &other, &[]).unwrap();
        let second = fs::read_to_string(root.join(PAGE)).unwrap();
        assert!(second.contains("scaling-y") && !second.contains("scaling-x"), "{second}");
        assert_eq!(differences(root), Vec::<String>::new());
    }
}
