//! NumPy itself reads the headers that outcore writes, and outcore reads those that NumPy writes.
//! Skips with a message if python3 has no NumPy.

use std::fs;
use std::process::Command;

use outcore::key::{NpyHeader, RecordFormat};

/// Runs a Python script with arguments; `None` if there is no NumPy.
fn numpy(script: &str, arguments: &[&str]) -> Option<String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let probe = Command::new(&python).args(["-c", "import numpy"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("SKIP: {python} has no numpy (set PYTHON to one that has)");
        return None;
    }
    let output = Command::new(&python)
        .arg("-c")
        .arg(script)
        .args(arguments)
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn numpy_reads_the_headers_that_outcore_writes() {
    let dir = tempfile::tempdir().unwrap();
    for (format, wanted) in [
        ("u64", "<u8 (3,)"),
        ("f32bex32", ">f4 (3, 32)"),
        ("i8", "|i1 (3,)"),
        ("gensort", "[('key0', '|S10'), ('rest10', '|V90')] (3,)"),
        (
            "24/4:4:i32,8:8:u16",
            "[('rest0', '|V4'), ('key0', '<i4'), ('key1', '<u2', (4,)), ('rest16', '|V8')] (3,)",
        ),
    ] {
        let format = RecordFormat::parse_type(format).unwrap();
        let mut bytes = NpyHeader::of_format(&format, 3).unwrap().encode(3);
        bytes.resize(bytes.len() + 3 * format.record_bytes(), 1);
        let path = dir.path().join("x.npy");
        fs::write(&path, bytes).unwrap();
        let script = "import sys, numpy as np\na = np.load(sys.argv[1])\n\
                      d = a.dtype\nprint(d.str if d.names is None else d.descr, a.shape)";
        let Some(text) = numpy(script, &[path.to_str().unwrap()]) else {
            return;
        };
        assert_eq!(text.trim(), wanted);
    }
}

#[test]
fn outcore_reads_the_headers_that_numpy_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.npy");
    for (array, wanted) in [
        ("np.zeros(7, 'u8')", "u64"),
        ("np.zeros((7, 5), '>f8')", "f64bex5"),
        ("np.zeros(7, 'M8[us]')", "i64"),
        ("np.zeros(7, '?')", "u8"),
        ("np.zeros(7, 'S3')", "bytes3"),
        ("np.zeros(7, 'U2')", "u32x2"),
        (
            "np.zeros(7, [('a', 'u1'), ('b', '<f4', (2, 2))])",
            "17/0:1:u8,1:16:f32",
        ),
        (
            "np.zeros(7, np.dtype([('a', 'u1'), ('b', 'f8')], align=True))",
            "16/0:1:u8,8:8:f64",
        ),
        (
            "np.zeros(7, [('a', [('x', 'i2'), ('y', 'i4')])])",
            "6/0:2:i16,2:4:i32",
        ),
        ("np.zeros(7, [('\u{3b1}', 'u4')])", "u32"),
        ("np.asfortranarray(np.zeros((7, 1), 'f4'))", "f32"),
    ] {
        let script = "import sys, warnings, numpy as np\nwarnings.simplefilter('ignore')\n\
                      np.save(sys.argv[1], eval(sys.argv[2]))";
        if numpy(script, &[path.to_str().unwrap(), array]).is_none() {
            return;
        }
        let bytes = fs::read(&path).unwrap();
        let header = NpyHeader::parse(&bytes).unwrap();
        assert_eq!(header.format.to_string(), wanted, "{array}");
        assert_eq!(header.rows, 7, "{array}");
        header.check_file_bytes(bytes.len() as u64).unwrap();
    }
}
