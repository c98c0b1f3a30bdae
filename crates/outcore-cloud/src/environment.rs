//! Environment variables that configure the client of a store.
//!
//! Contract: the names are those of the vendors' tools (`AWS_*`, `GOOGLE_*`, `AZURE_*`). An empty
//! variable counts as absent, as in these tools. Values are never part of an error, since some are
//! secrets.

use std::str::FromStr;

use outcore_io::{Error, Result};

use crate::address::{Address, Scheme};

/// Variables whose names differ in the client's settings.
const OTHER_NAMES: [(&str, &str); 2] = [
    ("SERVICE_ACCOUNT", "google_service_account"),
    ("IDENTITY_ENDPOINT", "azure_msi_endpoint"),
];

/// A variable with its value.
struct Variable {
    name: String,
    value: String,
}

/// See the module.
pub(crate) struct Variables(Vec<Variable>);

impl Variables {
    /// The environment variables of the process for stores of this kind.
    pub(crate) fn of_process(scheme: Scheme) -> Self {
        let prefix = match scheme {
            Scheme::S3 => "AWS_",
            Scheme::Google => "GOOGLE_",
            Scheme::Azure => "AZURE_",
            Scheme::Web => return Variables(Vec::new()),
        };
        let is_ours = |name: &str| {
            let other = OTHER_NAMES.iter().find(|(known, _)| *known == name);
            let setting =
                other.map_or_else(|| name.to_owned(), |(_, key)| key.to_ascii_uppercase());
            setting.starts_with(prefix)
        };
        let found = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            (is_ours(&name) && !value.is_empty()).then_some(Variable { name, value })
        });
        let mut found: Vec<Variable> = found.collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Variables(found)
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|variable| variable.name == name);
        found.map(|variable| &variable.value[..])
    }

    /// Whether a variable is `true`.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// Applies to `builder` all settings that the variables contain.
    pub(crate) fn applied<B, K: FromStr>(&self, builder: B, with: fn(B, K, String) -> B) -> B {
        self.0.iter().fold(builder, |builder, variable| {
            let known = OTHER_NAMES.iter().find(|(name, _)| *name == variable.name);
            let name = known.map_or_else(
                || variable.name.to_ascii_lowercase(),
                |(_, key)| (*key).to_owned(),
            );
            match name.parse() {
                Ok(key) => with(builder, key, variable.value.clone()),
                Err(_) => builder,
            }
        })
    }

    /// Fails for an endpoint that no request can reach.
    ///
    /// # Errors
    /// Usage: it has no scheme; it is not encrypted, and that is not allowed.
    pub(crate) fn check_endpoint(&self, operation: &str, address: &Address) -> Result<()> {
        let endpoints = self.0.iter().filter(|variable| {
            let name = &variable.name;
            (name.contains("ENDPOINT") || name.contains("BASE_URL"))
                && !name.contains("METADATA")
                && !name.contains("MSI")
                && !name.contains("IDENTITY")
        });
        for Variable { name, value } in endpoints {
            let refused = |cause: &str, hint: String| {
                Err(Error::usage(operation, format!("{name} {cause}"))
                    .path(address.path())
                    .hint(hint))
            };
            if !value.contains("://") {
                return refused(
                    "has no scheme",
                    format!(
                        "begin it with https://, or with http:// and {}",
                        self.allowing()
                    ),
                );
            }
            if !is_address(value) {
                return refused(
                    "is not the address of a server",
                    "write it as https://HOST or https://HOST:PORT".to_owned(),
                );
            }
            if value.starts_with("http://") && !self.allows_http() {
                return refused(
                    "is not encrypted: it begins with http://",
                    format!("set {} to allow that", self.allowing()),
                );
            }
        }
        Ok(())
    }

    fn allows_http(&self) -> bool {
        let mut names = self.0.iter();
        names.any(|variable| {
            let is_true = matches!(&variable.value[..], "true" | "1" | "yes" | "on" | "t" | "y");
            variable.name.ends_with("ALLOW_HTTP") && is_true
        })
    }

    /// The setting that allows requests without encryption.
    fn allowing(&self) -> String {
        let prefix = self
            .0
            .first()
            .and_then(|first| first.name.split('_').next());
        format!("{}_ALLOW_HTTP=true", prefix.unwrap_or("AWS"))
    }

    /// The names of the variables whose values occur in a message.
    pub(crate) fn named_by(&self, message: &str) -> Vec<&str> {
        let is_in = |variable: &&Variable| {
            variable.value.len() > 1 && message.contains(&variable.value[..])
        };
        self.0
            .iter()
            .filter(is_in)
            .map(|variable| &variable.name[..])
            .collect()
    }
}

/// Whether a text is the address of a server. A client does not check this.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let Some(rest) = rest.or_else(|| text.strip_prefix("http://")) else {
        return false;
    };
    let server = rest.split(['/', '?']).next().unwrap_or_default();
    let (host, port) = match server.rsplit_once(':') {
        // An IPv6 address is in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (server, None),
    };
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
    let is_plain = rest.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain
        && !host.is_empty()
        && host.bytes().all(is_of_host)
        && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(variables: &[(&str, &str)]) -> Variables {
        let variables = variables.iter().map(|(name, value)| Variable {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
        });
        Variables(variables.collect())
    }

    #[test]
    fn an_endpoint_needs_a_scheme_and_leave_to_do_without_encryption() {
        let address = Address::parse("open", Path::new("s3://b/k")).unwrap();
        let checked = |variables: &[(&str, &str)]| of(variables).check_endpoint("open", &address);
        let error = checked(&[("AWS_ENDPOINT_URL", "minio:9000")]).unwrap_err();
        assert!(error.cause().contains("AWS_ENDPOINT_URL has no scheme"));
        let plain = ("AWS_ENDPOINT_URL", "http://minio:9000");
        let error = checked(&[plain, ("AWS_ALLOW_HTTP", "false")]).unwrap_err();
        assert!(error.next_step().unwrap().contains("AWS_ALLOW_HTTP=true"));
        assert!(checked(&[plain, ("AWS_ALLOW_HTTP", "true")]).is_ok());
        assert!(checked(&[("AWS_ENDPOINT_URL", "https://minio")]).is_ok());
        for wrong in [
            "https://",
            "https://:9000",
            "https://h:99999",
            "https://h:",
            "https://a b",
            "ftp://x",
        ] {
            let error = checked(&[("AWS_ENDPOINT_URL", wrong)]).unwrap_err();
            assert!(error.cause().contains("is not the address"), "{wrong}");
        }
        assert!(checked(&[("AWS_ENDPOINT_URL", "https://[::1]:9000/path")]).is_ok());
        assert!(checked(&[("AWS_METADATA_ENDPOINT", "http://169.254.169.254")]).is_ok());
    }

    #[test]
    fn a_message_with_a_value_names_its_variable() {
        let variables = of(&[("AWS_ALLOW_HTTP", "maybe"), ("AWS_REGION", "eu")]);
        assert_eq!(
            variables.named_by("failed to parse \"maybe\""),
            ["AWS_ALLOW_HTTP"]
        );
    }
}
