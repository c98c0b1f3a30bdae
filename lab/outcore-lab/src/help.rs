//! The pages of the command: its groups of commands, and their examples.
//!
//! Contract: input for the help pages of [`outcore_terminal::pages`]. Every command is in one
//! group.

use outcore_terminal::pages::Contents;

/// Groups and examples; see the module.
pub(crate) const CONTENTS: Contents = Contents {
    groups: &[
        ("Drives and measurements", &["bench", "replay"]),
        ("Simulation", &["sim"]),
        ("The command itself", &["completions", "man", "help"]),
    ],
    groups_below: &[],
    examples: &EXAMPLES,
};

/// Examples of commands whose definition has none, by the command's name.
const EXAMPLES: [(&str, &str); 14] = [
    (
        "bench",
        "outcore bench io /mnt/nvme0 /mnt/nvme1 -o report.html\n\
         outcore bench sort /mnt/nvme0 --size 8GiB --memory 2GiB -o sort.html\n\
         outcore bench graph /mnt/nvme0 --scale 24 --memory 2GiB",
    ),
    (
        "sim",
        "outcore sim presets\n\
         outcore sim run --preset pm9a3\n\
         outcore sim plan --size 1TiB --memory 16GiB\n\
         outcore sim gpu --workload bert",
    ),
    (
        "completions",
        "outcore-lab completions bash > outcore-lab.bash",
    ),
    (
        "man",
        "outcore-lab man | man -l -\nmkdir pages; outcore-lab man pages",
    ),
    ("sim run", "outcore sim run --preset pm9a3"),
    ("sim presets", "outcore sim presets"),
    (
        "sim replay",
        "outcore sort keys.bin -o sorted.bin --type u64 --record-io sort.iotrace\n\
         outcore sim replay sort.iotrace",
    ),
    (
        "sim sweep",
        "outcore sim sweep --vary flash.channels=4,8,16 --vary flow.depth=1,16,256",
    ),
    ("sim calibrate", "outcore sim calibrate drives.toml"),
    ("sim plan", "outcore sim plan --size 1TiB --memory 16GiB"),
    ("sim allegro", "outcore sim allegro profile.json.gz"),
    ("sim activesort", "outcore sim activesort"),
    ("sim gpu", "outcore sim gpu --workload bert"),
    ("sim policies", "outcore sim policies"),
];

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use outcore_terminal::page_check::faults;

    use super::CONTENTS;
    use crate::cli::Cli;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_and_its_page_begins_with_lines_that_it_takes() {
        let takes = |words: Vec<std::ffi::OsString>| {
            let is_other = words.get(1).is_some_and(|name| name == "sort");
            let parsed = match is_other {
                true => outcore_cli::definition().try_get_matches_from(words),
                false => Cli::command().try_get_matches_from(words),
            };
            parsed.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(faults(&Cli::command(), CONTENTS, &takes), [""; 0]);
    }

    #[test]
    fn outcore_names_the_same_commands_with_the_same_words() {
        let (ours, theirs) = (Cli::command(), outcore_cli::definition());
        for name in ["bench", "replay", "sim"] {
            let ours = ours.find_subcommand(name).unwrap();
            let stub = theirs.find_subcommand(name).unwrap();
            assert_eq!(
                stub.get_about().unwrap().to_string(),
                ours.get_about().unwrap().to_string()
            );
            let below = ours.get_subcommands().map(clap::Command::get_name);
            let argument = stub
                .get_arguments()
                .find(|argument| argument.get_id() == "command");
            let values = argument.map(clap::Arg::get_possible_values);
            let values = values.unwrap_or_default();
            let named: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
            assert_eq!(named, below.collect::<Vec<_>>(), "{name}");
        }
    }
}
