//! The requests of the Python side: dictionaries as typed values.
//!
//! Contract: the Python side has checked types and filled in defaults; there are no defaults here.
//! `outcore/_outcore.pyi` repeats the keys and types.

use std::path::PathBuf;

use outcore::Result;
use outcore::key::RecordFormat;
use outcore_front::content::Recognition;
use outcore_front::records::TypeRequest;
use outcore_front::resources::ResourcesRequest;
use outcore_front::text::csv_files::CsvSort;
use outcore_io::config::{Environment, Flags};
use outcore_io::stop::Stop;
use outcore_io::units;
use pyo3::FromPyObject;

/// The resources of a job.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Resources {
    memory: Option<String>,
    threads: Option<usize>,
    io: Option<String>,
    drives: Vec<PathBuf>,
    scratch_limit: Option<String>,
    seed: u64,
    /// The drives file of the volume that datasets are on.
    pub(crate) volume: Option<PathBuf>,
}

impl Resources {
    /// Merges them with the environment, the file and the defaults.
    pub(crate) fn load(
        &self,
        environment: &Environment,
    ) -> Result<outcore_front::resources::Resources> {
        outcore_front::resources::Resources::load(&self.to_request()?, environment)
    }

    /// The settings of the request.
    pub(crate) fn to_request(&self) -> Result<ResourcesRequest> {
        let bytes = |text: &Option<String>| text.as_deref().map(units::parse_bytes).transpose();
        let flags = Flags {
            memory_bytes: bytes(&self.memory)?,
            threads: self.threads,
            io: self.io.as_deref().map(str::parse).transpose()?,
            drives: self.drives.clone(),
            scratch_limit_bytes: bytes(&self.scratch_limit)?,
        };
        let seed = self.seed;
        Ok(ResourcesRequest {
            flags,
            seed,
            stop: Stop::default(),
        })
    }

    /// The seed, which chooses samples, the first drive, and generated data.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }
}

/// The options that decide on the kind of files.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) is_records: bool,
    pub(crate) is_lines: bool,
    /// Whether an option is given that only tables have.
    pub(crate) is_table: bool,
    pub(crate) resources: Resources,
}

/// The type of the records.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Records {
    name: Option<String>,
    descr: Option<String>,
    row_shape: Vec<u64>,
    record_bytes: Option<usize>,
    keys: Vec<String>,
}

impl Records {
    /// As `to_request`, for a function that needs no keys.
    pub(crate) fn to_request_without_keys(&self) -> Result<TypeRequest> {
        let mut request = self.to_request()?;
        if request.record_bytes.is_some() && request.keys.is_empty() {
            request.keys.push("0:1".to_string());
        }
        Ok(request)
    }

    /// The options in the form of the rules for records.
    pub(crate) fn to_request(&self) -> Result<TypeRequest> {
        let format = self.name.as_deref().map(RecordFormat::parse_type);
        Ok(TypeRequest {
            format: format.transpose()?,
            descr: self
                .descr
                .clone()
                .map(|descr| (descr, self.row_shape.clone())),
            record_bytes: self.record_bytes,
            keys: self.keys.clone(),
        })
    }
}

/// The data that may be read as lines that end with `terminator`, with `separator` between fields.
pub(crate) fn recognition(insists: bool, terminator: u8, separator: Option<u8>) -> Recognition {
    Recognition {
        insists_lines: insists,
        takes_nuls: terminator == 0 || separator == Some(0),
        takes_packed: false,
        tells_header: false,
    }
}

/// How records of CSV are read: the byte between fields, if it is given, and whether there is a
/// header.
pub(crate) type CsvRows = (Option<u8>, bool);

/// Records of CSV for a step without an order: the byte between fields, and whether there is a
/// header.
pub(crate) fn csv_rows((separator, has_header): CsvRows) -> CsvSort {
    CsvSort {
        separator,
        has_header,
        ..CsvSort::default()
    }
}

/// The order of a shuffle for reading records.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Order {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) records: Records,
    pub(crate) resources: Resources,
    pub(crate) epoch: u64,
}

/// How CSV and JSON lines become a table.
#[derive(Debug, Clone, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TextRequest {
    /// Types of columns.
    pub(crate) schema: Option<String>,
    /// The byte between fields of CSV.
    pub(crate) separator: Option<u8>,
    /// Texts of fields that are null.
    pub(crate) null: Vec<String>,
    /// The treatment of bad rows.
    pub(crate) on_error: String,
}
