//! Logical types of Parquet through every job.
//!
//! Contract: the Parquet library reports the type of the columns in the files that jobs write.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int64Array, RecordBatch,
    StringArray, StructArray,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use outcore_table::input::InputOptions;
use outcore_table::jobs::TableEnds;
use outcore_table::output::{OutputOptions, TableFormat};
use parquet::basic::LogicalType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::kept::{JOBS, each_job, files_of};
use crate::common;

/// Returns the logical type of the column `v`.
fn logical(path: &Path) -> Option<LogicalType> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let fields = schema.root_schema().get_fields();
    let field = fields.iter().find(|field| field.name() == "v").unwrap();
    field.get_basic_info().logical_type_ref().cloned()
}

#[test]
fn logical_types_of_parquet_survive_every_job() {
    let uuid: ArrayRef =
        Arc::new(FixedSizeBinaryArray::try_from_iter([[7; 16], [8; 16]].iter()).unwrap());
    let json: ArrayRef = Arc::new(StringArray::from(vec!["{}", "[1]"]));
    // A point in WKB: the byte order, the kind, and two doubles.
    let mut point = vec![1, 1, 0, 0, 0];
    point.extend([1.5_f64, 2.5].map(f64::to_le_bytes).concat());
    let shape: ArrayRef = Arc::new(BinaryArray::from_iter_values([&point, &point]));
    // Variants: metadata without names, and null.
    let bytes =
        |value: &[u8]| -> ArrayRef { Arc::new(BinaryViewArray::from_iter_values([value, value])) };
    let parts = Fields::from(vec![
        Field::new("metadata", DataType::BinaryView, false),
        Field::new("value", DataType::BinaryView, true),
    ]);
    let columns = vec![bytes(&[1, 0, 0]), bytes(&[0])];
    let variant: ArrayRef = Arc::new(StructArray::new(parts, columns, None));
    let cases = [
        ("arrow.uuid", None, uuid, LogicalType::Uuid),
        ("arrow.json", Some(""), json, LogicalType::Json),
        (
            "geoarrow.wkb",
            Some("{\"crs\":\"OGC:CRS84\"}"),
            Arc::clone(&shape),
            LogicalType::geometry(None),
        ),
        (
            "geoarrow.wkb",
            Some("{\"crs\":\"OGC:CRS84\",\"edges\":\"spherical\"}"),
            shape,
            LogicalType::geography(None, None),
        ),
        (
            "arrow.parquet.variant",
            Some(""),
            variant,
            LogicalType::variant(None),
        ),
    ];
    for (extension, of_it, values, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut metadata = vec![("ARROW:extension:name".to_owned(), extension.to_owned())];
        metadata
            .extend(of_it.map(|of_it| ("ARROW:extension:metadata".to_owned(), of_it.to_owned())));
        let field = Field::new("v", values.data_type().clone(), true);
        let field = field.with_metadata(metadata.into_iter().collect::<HashMap<_, _>>());
        let id = Field::new("id", DataType::Int64, false);
        let schema = Arc::new(Schema::new(vec![id, field]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_new(schema, vec![ids, values]).unwrap();
        let [arrow, _, parquet] = files_of(dir.path(), &batch);
        assert_eq!(logical(&parquet).as_ref(), Some(&expected), "{extension}");
        for input in [arrow, parquet] {
            for name in JOBS {
                let outputs = [dir.path().join("out.parquet")];
                let _ = std::fs::remove_file(&outputs[0]);
                let ends = TableEnds {
                    inputs: std::slice::from_ref(&input),
                    reads: &InputOptions::default(),
                    outputs: &outputs,
                    writes: &OutputOptions::new(TableFormat::Parquet),
                };
                each_job(&ends, &common::job(64 << 20, 1), name).unwrap();
                let found = logical(&outputs[0]);
                assert_eq!(
                    found.as_ref(),
                    Some(&expected),
                    "{extension} {name} {input:?}"
                );
            }
        }
    }
}
