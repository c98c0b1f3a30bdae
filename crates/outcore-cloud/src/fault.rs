//! Errors of stores as the engine's errors: what is wrong, where, and the next step.
//!
//! Contract: [`explain`] gives one line without secrets. A changed object is
//! [`Error::changed_input`]. Refused access and missing credentials name the variables that the
//! vendor's tools read; their values are never part of an error.

use std::path::Path;

use object_store::Error as StoreError;
use outcore_io::{Error, Kind};

use crate::address::{Address, Scheme};
use crate::environment::Variables;

/// Longest message of a store that becomes the cause of an error.
const CAUSE_CHARS_MAX: usize = 300;

/// The error of `operation` on the object of `address`.
pub(crate) fn explain(operation: &str, address: &Address, error: &StoreError) -> Error {
    let path = address.path();
    match error {
        StoreError::Precondition { .. } => changed(operation, &path),
        _ if is_missing_bucket(error) => {
            Error::new(Kind::Io, operation, "there is no such bucket or container")
                .path(&path)
                .hint("check its name, and the region and endpoint of the store")
        }
        StoreError::NotFound { .. } => Error::new(Kind::Io, operation, "there is no such object")
            .path(&path)
            .hint("check the name"),
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
            Error::new(Kind::Io, operation, "the store denies access")
                .path(&path)
                .hint(format!(
                    "check the credentials ({}) and their permissions in the store",
                    variables_of(address.scheme)
                ))
        }
        StoreError::NotSupported { .. } => Error::new(Kind::Io, operation, line_of(error))
            .path(&path)
            .hint("copy the file to a drive: outcore reads only from servers that serve ranges of bytes"),
        _ if is_about_credentials(error) => no_credentials(operation, address),
        _ => failure(operation, error).path(&path),
    }
}

/// The error about a certificate that is not accepted, if that is the failure.
fn certificate_failure(operation: &str, causes: &[String]) -> Option<Error> {
    let mut reasons = causes.iter();
    let reason = reasons.find_map(|text| text.split_once("invalid peer certificate: "))?;
    let reason = reason.1.trim_end_matches(')');
    let hint = match reason.contains("UnknownIssuer") {
        true => {
            "if you trust its authority, name the file with the authority's certificate in \
             SSL_CERT_FILE, or for S3 in AWS_CA_BUNDLE"
        }
        false => "check the name of the server, its certificate, and the clock of this machine",
    };
    let cause = format!("the certificate of its server is not accepted: {reason}");
    Some(Error::new(Kind::Io, operation, cause).hint(hint))
}

/// The error of a request that no other rule explains.
fn failure(operation: &str, error: &StoreError) -> Error {
    let line = line_of(error);
    // Each message begins with the client's report of its attempts.
    let (account, cause) = line.split_once(" - ").unwrap_or(("", &line));
    let tries = account
        .split_once(", after ")
        .and_then(|(_, rest)| rest.split(' ').next())
        .and_then(|retries| retries.parse::<u32>().ok())
        .map(|retries| retries + 1);
    let causes = causes_of(error);
    if let Some(error) = certificate_failure(operation, &causes) {
        return error;
    }
    let cause = match causes.iter().any(|text| text.contains("dns error")) {
        true => "the name of its server is not known".to_owned(),
        false => match causes
            .iter()
            .any(|text| text.contains("Connection refused"))
        {
            true => "its server refuses connections".to_owned(),
            false => cause.to_owned(),
        },
    };
    let hint = match tries {
        Some(_) => "check the endpoint and the network, or try again later",
        None => "check the endpoint and the settings of the store",
    };
    let cause = match tries {
        Some(tries) => format!("{cause}, after {tries} tries"),
        None => cause,
    };
    Error::new(Kind::Io, operation, cause).hint(hint)
}

/// The messages of an error and of its causes.
fn causes_of(error: &StoreError) -> Vec<String> {
    let mut texts = Vec::new();
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

/// The error for a client that cannot be made because `variables` contain wrong settings.
pub(crate) fn misconfigured(
    operation: &str,
    address: &Address,
    variables: &Variables,
    error: &StoreError,
) -> Error {
    let line = line_of(error);
    let cause = line
        .split_once(" error: ")
        .map_or(&line[..], |(_, cause)| cause);
    let names = variables.named_by(cause);
    Error::usage(operation, cause)
        .path(address.path())
        .hint(match names.is_empty() {
            true => format!("set {}", variables_of(address.scheme)),
            false => format!("correct {}", names.join(" or ")),
        })
}

/// The error for an object that has changed since it was found.
pub(crate) fn changed(operation: &str, path: &Path) -> Error {
    let cause = "the object changed while it was read: another version has its name now";
    Error::changed_input(operation, cause).path(path)
}

/// The error for missing credentials.
pub(crate) fn no_credentials(operation: &str, address: &Address) -> Error {
    Error::new(Kind::Io, operation, "no credentials are given")
        .path(address.path())
        .hint(format!("set {}", variables_of(address.scheme)))
}

/// The error about a store that did not answer after the user wanted to stop.
pub(crate) fn unanswered() -> Error {
    let cause = "interrupted, and the store does not answer";
    Error::new(Kind::Interrupted, "write object", cause)
}

/// Whether another try may help: the connection or the server failed, not the request.
pub(crate) fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Generic { .. })
}

/// Whether the place itself does not exist. A request for a list of objects reports this as a
/// general error.
pub(crate) fn is_missing_bucket(error: &StoreError) -> bool {
    let text = error.to_string();
    ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
        .iter()
        .any(|mark| text.contains(mark))
}

fn is_about_credentials(error: &StoreError) -> bool {
    let text = error.to_string();
    [
        "169.254.169.254",
        "instance metadata",
        "latest/api/token",
        "metadata.google.internal",
    ]
    .iter()
    .any(|mark| text.contains(mark))
}

/// The variables with the credentials of a store.
fn variables_of(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true",
        Scheme::Google => "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
        Scheme::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        Scheme::Web => "none are used for web servers",
    }
}

/// The text of an error in one line of bounded length, without the part of addresses after a `?`.
fn line_of(error: &StoreError) -> String {
    let text = error.to_string();
    let words = text
        .split_whitespace()
        .map(|word| match word.contains("://") {
            true => word.split('?').next().unwrap_or(word),
            false => word,
        });
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CAUSE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: &StoreError) -> Error {
        let address = Address::parse("read", Path::new("s3://b/k")).unwrap();
        explain("read", &address, error)
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_to_do_and_no_secret() {
        let source = || "body: NoSuchBucket".into();
        let path = || "k".to_owned();
        let missing = StoreError::NotFound {
            path: path(),
            source: source(),
        };
        assert!(said(&missing).cause().contains("no such bucket"));
        let object = StoreError::NotFound {
            path: path(),
            source: "".into(),
        };
        assert!(said(&object).cause().contains("no such object"));
        let denied = StoreError::PermissionDenied {
            path: path(),
            source: "".into(),
        };
        assert!(
            said(&denied)
                .next_step()
                .unwrap()
                .contains("AWS_ACCESS_KEY_ID")
        );
        let changed = StoreError::Precondition {
            path: path(),
            source: "".into(),
        };
        assert_eq!(said(&changed).kind(), Kind::Corrupt);
        let signed = StoreError::Generic {
            store: "S3",
            source: "GET http://h/k?X-Amz-Signature=secret failed\nbadly".into(),
        };
        let text = said(&signed).to_string();
        assert!(
            text.contains("http://h/k failed badly") && !text.contains("secret"),
            "{text}"
        );
    }
}
