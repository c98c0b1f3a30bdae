//! blkparse's text from lines to requests: the same events as in a real kernel's binary trace, the
//! stage that counts, SimpleSSD's choice, and response times.
//!
//! Contract: `linux-6.18.blkparse` has the 40 events of `linux-6.18.blktrace` in the form that
//! blkparse's `process_default` prints; the other lines are written here.

use super::*;

fn open(text: &str, format: Option<Format>) -> TraceReader {
    let options = ReadOptions {
        format,
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    TraceReader::from_stream(Cursor::new(text.to_owned()), "t", &options).unwrap()
}

/// The real kernel's events whose action `keeps` accepts, without the summary.
fn text_where(keeps: impl Fn(&str) -> bool) -> String {
    let text = fs::read_to_string(fixture("linux-6.18.blkparse")).unwrap();
    let kept = text.lines().filter(|line| {
        let action = line.split_ascii_whitespace().nth(5);
        line.starts_with("  7,0") && action.is_some_and(&keeps)
    });
    kept.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_text_of_a_trace_has_the_requests_and_response_times_of_its_binary_form() {
    let options = ReadOptions::default();
    let mut binary = TraceReader::open(fixture("linux-6.18.blktrace"), &options).unwrap();
    let mut text = TraceReader::open(fixture("linux-6.18.blkparse"), &options).unwrap();
    assert_eq!(text.format(), Format::Blkparse);
    // blkparse counts from the first event.
    let mut from_binary = read_all(&mut binary);
    let first_ns = from_binary[0].time_ns;
    for request in &mut from_binary {
        request.time_ns -= first_ns;
    }
    assert_eq!(read_all(&mut text), from_binary);
    assert_eq!((text.skips().total(), text.note()), (0, None));
    // 32 other events and 6 lines of the summary.
    assert_eq!(text.ignored(), 38);
    // One issue of the fixture is completed, after 67,591 ns.
    let response = text.response().unwrap();
    assert_eq!(Some(response), binary.response());
    assert_eq!((response.requests, response.unmatched), (1, 6));
    assert_eq!((response.mean_ns, response.max_ns), (67_591, 67_591));
}

#[test]
fn without_queued_events_the_issued_ones_count_and_without_both_the_completed_ones() {
    let all = read_all(&mut open(&text_where(|_| true), None));
    let mut issued = open(&text_where(|action| action == "D" || action == "C"), None);
    assert!(issued.note().unwrap().contains("issued to the drive (D)"));
    let requests = read_all(&mut issued);
    // The text ends before the last write is issued.
    assert_eq!(requests.len(), all.len() - 1);
    for (issued, queued) in requests.iter().zip(&all) {
        assert!(issued.time_ns > queued.time_ns);
        let time_ns = queued.time_ns;
        assert_eq!(Request { time_ns, ..*issued }, *queued);
    }
    assert_eq!(issued.response().unwrap().requests, 1);
    let mut completed = open(&text_where(|action| action == "C"), None);
    assert!(completed.note().unwrap().contains("completed (C)"));
    assert_eq!(read_all(&mut completed).len(), 1);
    assert_eq!(completed.response(), None);
}

#[test]
fn simplessd_takes_the_issued_events_whatever_else_there_is() {
    let text = text_where(|_| true);
    let mut issued = open(&text_where(|action| action == "D"), None);
    let mut simplessd = open(&text, Some(Format::Simplessd));
    assert_eq!(simplessd.note(), None);
    assert_eq!(read_all(&mut simplessd), read_all(&mut issued));
    let mut blkparse = open(&text, None);
    assert_ne!(read_all(&mut blkparse).len(), simplessd.requests() as usize);
}

#[test]
fn systor_states_its_response_times() {
    let options = ReadOptions::default();
    let mut reader = TraceReader::open(fixture("small.systor.csv"), &options).unwrap();
    let summary = Summary::of(&mut reader).unwrap();
    let response = summary.response.unwrap();
    // 806 and 194 us; the third request has none.
    assert_eq!((response.requests, response.unmatched), (2, 0));
    assert_eq!((response.mean_ns, response.max_ns), (500_000, 806_000));
    let text = summary.to_string();
    assert!(text.contains("response       mean 500 us"), "{text}");
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    // Formats without response times have none.
    let mut reader = TraceReader::open(fixture("small.spc"), &options).unwrap();
    assert_eq!(Summary::of(&mut reader).unwrap().response, None);
}
