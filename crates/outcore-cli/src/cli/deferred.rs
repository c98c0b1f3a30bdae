//! Definitions that are built on demand: [`Deferred`].
//!
//! Contract: a command whose arguments are `Deferred<T>` gets the flags of `T` when it is called. A
//! run then builds the flags of one command instead of sixty, which would take most of the time of
//! a small job. Code that shows or walks the definition asks for the [`whole`] of it; otherwise
//! help would list flags in another order, and without those of subcommands.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

thread_local! {
    /// Whether everything is built at once.
    static IS_WHOLE: Cell<bool> = const { Cell::new(false) };
}

/// The result of `make`, with everything built at once.
pub(crate) fn whole<T>(make: impl FnOnce() -> T) -> T {
    IS_WHOLE.set(true);
    let made = make();
    IS_WHOLE.set(false);
    made
}

/// `command` with the arguments that `augment` adds when the command is called.
pub(crate) fn defer(command: Command, augment: fn(Command) -> Command) -> Command {
    match IS_WHOLE.get() {
        true => augment(command),
        false => command.defer(augment),
    }
}

/// The arguments of a command, or the commands below it.
#[derive(Debug)]
pub(crate) struct Deferred<T>(Box<T>);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|args| Deferred(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|args| Deferred(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        defer(command, T::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        defer(command, T::augment_args_for_update)
    }
}

impl<T: Subcommand> Subcommand for Deferred<T> {
    fn augment_subcommands(command: Command) -> Command {
        defer(command, T::augment_subcommands)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        defer(command, T::augment_subcommands_for_update)
    }

    fn has_subcommand(name: &str) -> bool {
        T::has_subcommand(name)
    }
}
