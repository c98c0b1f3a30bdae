//! The pages of the command: its groups of commands, and their examples.
//!
//! Contract: [`outcore_terminal::pages`] arranges help by these tables. Every command is in one
//! group.

use outcore_terminal::pages::{Contents, Groups};

/// See the module.
pub(crate) const CONTENTS: Contents = Contents {
    groups: &GROUPS,
    groups_below: &GROUPS_BELOW,
    examples: &EXAMPLES,
};

/// The commands, in groups.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Files of lines, records or tables",
        &[
            "sort", "shuffle", "unique", "dedup", "group-by", "window", "join", "diff", "comm",
            "split", "head", "tail", "sample", "verify", "convert", "info", "gen",
        ],
    ),
    (
        "Expressions over records",
        &[
            "map",
            "filter",
            "zip",
            "flat-map",
            "enumerate",
            "windows",
            "reverse",
            "merge",
            "reduce",
            "scan",
            "histogram",
            "count-by",
            "top",
            "find",
            "partition",
            "gather",
            "lookup",
        ],
    ),
    ("Vectors", &["vector", "knn", "kmeans"]),
    ("Sorted views and datasets", &["view", "volume"]),
    ("Graphs", &["graph"]),
    (
        "Drives and measurements",
        &["demo", "drives", "bench", "replay", "scratch"],
    ),
    ("Simulation", &["sim"]),
    (
        "The command itself",
        &["config", "completions", "man", "help"],
    ),
];

/// The groups of a command with many subcommands, by its name.
const GROUPS_BELOW: [(&str, &Groups<'static>); 1] = [(
    "graph",
    &[
        (
            "Making and checking graphs",
            &["convert", "info", "degrees", "verify", "export"],
        ),
        ("Components and paths", &["cc", "scc", "bfs", "sssp"]),
        ("Ranks", &["pagerank", "hits", "closeness"]),
        (
            "Communities and dense parts",
            &["lp", "louvain", "triangles", "kcore"],
        ),
        ("Samples for training", &["sample", "walk"]),
    ],
)];

/// Examples of commands without examples in their definition, by their names below the root.
const EXAMPLES: [(&str, &str); 37] = [
    (
        "graph",
        "outcore graph convert edges.txt -o web.graph --relabel\n\
         outcore graph info web.graph\n\
         outcore graph cc web.graph -o components.npy\n\
         outcore graph pagerank web.graph -o ranks.npy --top 20",
    ),
    (
        "view",
        "outcore view build keys.bin -o keys.view --type u64 --memory 2GiB\n\
         outcore view cat keys.view --from-key 5000 --to-key 6000 | od -t u8\n\
         outcore view append keys.view more.bin\n\
         outcore view materialize keys.view -o sorted.bin",
    ),
    (
        "vector",
        "outcore vector convert sift_base.fvecs -o sift.fbin\n\
         outcore vector index sift.fbin -o sift.vindex\n\
         outcore vector pairs sift.fbin --max-l2 0 -o equal.npy",
    ),
    (
        "volume",
        "outcore volume create --volume drives.toml\n\
         outcore volume put keys.bin @keys --volume drives.toml\n\
         outcore volume status --volume drives.toml\n\
         outcore volume scrub --volume drives.toml",
    ),
    (
        "drives",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml\n\
         outcore sort keys.bin -o sorted.bin --type u64 --drives drives.toml",
    ),
    (
        "scratch",
        "outcore scratch list /mnt/nvme0\n\
         outcore scratch clean /mnt/nvme0",
    ),
    (
        "config",
        "outcore config show\n\
         OUTCORE_MEMORY=2GiB outcore config show",
    ),
    ("zip", "outcore zip a.npy --zip b.npy -o pairs.bin"),
    (
        "enumerate",
        "outcore enumerate keys.bin -o numbered.bin --type u64",
    ),
    (
        "windows",
        "outcore windows -n 3 prices.bin -o windows.bin --type f64",
    ),
    (
        "reverse",
        "outcore reverse keys.bin -o reversed.bin --type u64",
    ),
    (
        "scan",
        "outcore scan sum counts.npy -o offsets.npy --exclusive --map 'u64(x)'",
    ),
    (
        "histogram",
        "outcore histogram keys.bin --type u64 --bins 20 --range 0:1000",
    ),
    ("top", "outcore top -n 10 keys.bin --type u64"),
    ("find", "outcore find 'x > 1000' keys.bin --type u64"),
    (
        "gather",
        "outcore gather points.npy --at positions.npy -o chosen.npy",
    ),
    (
        "demo",
        "outcore demo --size 4GiB --memory 512MiB --dir /mnt/nvme0",
    ),
    ("scratch list", "outcore scratch list /mnt/nvme0"),
    ("scratch clean", "outcore scratch clean /mnt/nvme0"),
    ("config show", "outcore config show"),
    (
        "drives probe",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml",
    ),
    (
        "volume create",
        "outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml\n\
         outcore volume create --volume drives.toml --parity 1",
    ),
    (
        "volume replace",
        "outcore volume replace nvme1 /mnt/nvme4 --volume drives.toml",
    ),
    (
        "volume add",
        "outcore volume add /mnt/nvme4 --volume drives.toml",
    ),
    (
        "volume remove",
        "outcore volume remove nvme1 --volume drives.toml --limit 200MB/s",
    ),
    (
        "volume rebalance",
        "outcore volume rebalance --volume drives.toml\noutcore volume rebalance --volume drives.toml --limit 200MB/s",
    ),
    (
        "volume status",
        "outcore volume status --volume drives.toml",
    ),
    (
        "volume scrub",
        "outcore volume scrub --volume drives.toml\noutcore volume scrub @keys --volume drives.toml",
    ),
    (
        "volume ls",
        "outcore volume ls --volume drives.toml\noutcore volume ls @images --volume drives.toml",
    ),
    (
        "volume rm",
        "outcore volume rm @keys @old --volume drives.toml",
    ),
    (
        "volume cp",
        "outcore volume cp @keys @copy --volume drives.toml\noutcore volume cp more.bin @more --volume drives.toml",
    ),
    ("view append", "outcore view append keys.view more.bin"),
    ("view info", "outcore view info keys.view"),
    ("view verify", "outcore view verify keys.view"),
    (
        "view materialize",
        "outcore view materialize keys.view -o sorted.bin",
    ),
    ("completions", "outcore completions bash > outcore.bash"),
    (
        "man",
        "outcore man | man -l -\nmkdir pages; outcore man pages",
    ),
];

#[cfg(test)]
mod tests {
    use outcore_terminal::page_check::faults;

    use super::CONTENTS;
    use crate::cli::{Cli, gnu, lab};

    #[test]
    fn every_command_is_in_one_group_and_its_page_begins_with_lines_that_it_takes() {
        let takes = |words: Vec<std::ffi::OsString>| {
            if lab::called(&words) {
                return Ok(());
            }
            let mut of_one = gnu::definition_for(&words);
            let words = match gnu::read(words, &mut of_one) {
                Ok(gnu::Read::Words(words)) => words,
                Ok(gnu::Read::Version) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            // Both the whole definition and that of a single command accept the line.
            for definition in [Cli::whole(), of_one] {
                let parsed = definition.try_get_matches_from(&words);
                parsed.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        assert_eq!(faults(&Cli::whole(), CONTENTS, &takes), [""; 0]);
    }
}
