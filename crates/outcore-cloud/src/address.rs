//! The parts of an object's name: scheme, place (bucket, container or server) and key.
//!
//! Contract: [`Address::parse`] takes the names that [`is_object`] accepts. The key is used as it
//! is written; only the key of a web address is percent-decoded. A name with a query is rejected,
//! because the secrets of signed addresses would be printed and recorded with it.
//!
//! [`is_object`]: outcore_io::drive::objects::is_object

use std::path::{Path, PathBuf};

use object_store::path::Path as Key;
use outcore_io::{Error, Result};

/// Suffix of the name of the object that marks an upload.
pub(crate) const MARKER_SUFFIX: &str = ".outcore-upload";

/// The kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Amazon S3, and stores that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A web server; only for reading.
    Web,
}

/// A name of an object, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    /// Everything before the key, without a slash at the end: `s3://bucket`.
    pub(crate) place: String,
    /// The bucket, container or server.
    pub(crate) host: String,
    /// The rest, without a slash at the beginning; it may be empty.
    pub(crate) key: String,
}

impl Address {
    /// The parts of `path`.
    ///
    /// # Errors
    /// Usage: no scheme of a store, no bucket, a query, not UTF-8.
    pub(crate) fn parse(operation: &str, path: &Path) -> Result<Self> {
        let refuse = |cause: &str, hint: &str| {
            Error::usage(operation, cause)
                .path(path)
                .hint(hint.to_owned())
        };
        let like = "write it like s3://bucket/key or https://server/file";
        let text = path
            .to_str()
            .ok_or_else(|| refuse("the name of the object is not UTF-8", like))?;
        let (scheme_text, rest) = text
            .split_once("://")
            .ok_or_else(|| refuse("it is not the name of an object", like))?;
        let scheme = match scheme_text {
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Google,
            "az" | "abfs" | "abfss" => Scheme::Azure,
            "http" | "https" => Scheme::Web,
            _ => return Err(refuse("no store has this scheme", like)),
        };
        if scheme == Scheme::Web && rest.contains(['?', '#']) {
            let hint = "download it, or make the object readable without a query";
            return Err(refuse("addresses with a query are not read", hint));
        }
        if scheme == Scheme::Web
            && rest
                .split('/')
                .next()
                .is_some_and(|host| host.contains('@'))
        {
            let hint =
                "leave the user and the password out of the name: outcore prints and records names";
            return Err(refuse("the address contains a password", hint));
        }
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() {
            return Err(refuse("the name has no bucket", like));
        }
        let account = host.split_once('@').map(|(_, account)| account);
        if scheme == Scheme::Azure && account.is_some_and(|account| !account.contains('.')) {
            let hint = "write az://container/path, or \
                        abfss://container@account.dfs.core.windows.net/path";
            return Err(refuse("the account is not the name of a server", hint));
        }
        Ok(Address {
            scheme,
            place: format!("{scheme_text}://{host}"),
            host: host.to_owned(),
            key: key.to_owned(),
        })
    }

    /// The key in the client's form.
    ///
    /// # Errors
    /// Usage: no key, or a key that no object can have.
    pub(crate) fn location(&self, operation: &str) -> Result<Key> {
        let refuse = |cause: String| {
            Error::usage(operation, cause)
                .path(self.path())
                .hint("name one object, such as s3://bucket/out.txt; as an input, s3://bucket/folder/* names all objects of a folder")
        };
        if self.key.is_empty() || self.key.ends_with('/') {
            return Err(refuse(
                "this is the name of a folder, not of an object".to_owned(),
            ));
        }
        let key = match self.scheme {
            Scheme::Web => Key::from_url_path(&self.key),
            _ => Key::parse(&self.key),
        };
        key.map_err(|error| refuse(format!("no object can have this name: {error}")))
    }

    /// The same place with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Address {
            key: key.to_owned(),
            ..self.clone()
        }
    }

    /// The name.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("{}/{}", self.place, self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse("test", Path::new(text))
    }

    #[test]
    fn a_name_has_scheme_place_and_key() {
        let s3 = parse("s3://bucket/a/b c.txt").unwrap();
        assert_eq!(
            (s3.scheme, s3.place.as_str(), s3.key.as_str()),
            (Scheme::S3, "s3://bucket", "a/b c.txt")
        );
        assert_eq!(s3.path(), Path::new("s3://bucket/a/b c.txt"));
        assert_eq!(s3.location("test").unwrap().as_ref(), "a/b c.txt");
        let web = parse("https://host:8/a%20b").unwrap();
        assert_eq!(web.location("test").unwrap().as_ref(), "a b");
        let lake = parse("abfss://data@lake.dfs.core.windows.net/x").unwrap();
        assert_eq!(
            (lake.scheme, lake.host.as_str()),
            (Scheme::Azure, "data@lake.dfs.core.windows.net")
        );
    }

    #[test]
    fn names_that_lead_nowhere_or_tell_secrets_are_rejected() {
        for text in [
            "s3:///key",
            "ftp://host/x",
            "https://host/x?X-Amz-Signature=1",
            "https://me:secret@host/x",
            "abfs://container@account/x",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "s3://bucket",
            "s3://bucket/",
            "s3://bucket/dir/",
            "s3://b/a//c",
        ] {
            assert!(parse(text).unwrap().location("test").is_err(), "{text}");
        }
    }
}
