//! What commands do about tables where the command was built without the feature `tables`: they
//! refuse them by name.
//!
//! Contract: the functions of the folder `table`, which is there otherwise.

use std::path::Path;

use outcore::Result;
use outcore::runs::SortedView;
use outcore_front::resources::Resources;

use outcore_verbs::verb::without_tables;

use crate::cli::view::{ViewAppendArgs, ViewBuildArgs, ViewCatArgs, ViewMaterializeArgs};
use crate::context::Context;
use outcore_verbs::option::tables::TableArgs;

pub(crate) fn view_build(_: &Context, _: &ViewBuildArgs, _: (Resources, &TableArgs)) -> Result<u8> {
    Err(without_tables())
}

pub(crate) fn view_append(
    _: &Context,
    _: &ViewAppendArgs,
    _: (Resources, SortedView),
) -> Result<u8> {
    Err(without_tables())
}

pub(crate) fn view_cat(_: &Context, _: &ViewCatArgs, _: SortedView) -> Result<u8> {
    Err(without_tables())
}

pub(crate) fn view_order(_: &SortedView) -> Result<String> {
    Err(without_tables())
}

pub(crate) fn view_materialize(
    _: &Context,
    _: &ViewMaterializeArgs,
    _: (Resources, &Path),
) -> Result<u8> {
    Err(without_tables())
}
