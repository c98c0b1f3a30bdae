//! Connections to stores: one runtime, and one client per bucket, container or server.
//!
//! Contract: a [`Cloud`] starts nothing before the first use of an object. Settings and credentials
//! come from the environment, under the names that the vendors' tools read (`AWS_*`, `GOOGLE_*`,
//! `AZURE_*`). A request that a server refuses for the moment (5xx, 429), or whose connection is
//! lost, is repeated with growing pauses, at most [`RETRIES_MAX`] times and for [`RETRY_MAX`]. The
//! user's wish to stop ends each wait. For a request that begins, completes or aborts an upload, it
//! leaves the store [`ANSWER_MAX`] to answer.
//!
//! Bounds: two threads; [`GETS_MAX`] GETs in flight.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    RetryConfig,
};
use outcore_io::drive::paths::read_text;
use outcore_io::stop::Stop;
use outcore_io::{Error, Result};
use rustix::fs::{Mode, OFlags};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;

use crate::address::{Address, MARKER_SUFFIX, Scheme};
use crate::environment::Variables;
use crate::fault::{explain, is_missing_bucket, misconfigured, no_credentials, unanswered};

/// GETs in flight over all threads of the process.
pub(crate) const GETS_MAX: usize = 32;
/// Repetitions of a request.
pub(crate) const RETRIES_MAX: usize = 8;
/// Time after which a request is not repeated any more.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(120);
/// Longest pause before a repetition.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(5);
/// First pause before a repetition.
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest time of one request, with its data.
const REQUEST_MAX: &str = "300s";
const THREADS: usize = 2;

/// The variable with the file of the authorities' certificates for S3.
const CA_BUNDLE: &str = "AWS_CA_BUNDLE";

const CONNECT: &str = "open store";
const LIST: &str = "list objects";
const OPEN: &str = "open object";

/// The client of one place.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    /// The same client, if the store takes objects in parts.
    pub(crate) parts: Option<Arc<dyn MultipartStore>>,
    /// The runtime that serves it.
    pub(crate) handle: Handle,
}

/// An object that was found.
#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) address: Address,
    pub(crate) location: Key,
    pub(crate) store: Arc<Store>,
    pub(crate) facts: ObjectMeta,
}

/// Time between looks at the user's wish to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time for the answer to a request whose end should be known, once the user wants to stop.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Cloud {
    stop: Stop,
    runtime: OnceLock<Runtime>,
    stores: Mutex<HashMap<String, Arc<Store>>>,
    gets: OnceLock<Arc<Semaphore>>,
}

impl Cloud {
    pub(crate) fn new(stop: Stop) -> Self {
        Cloud {
            stop,
            runtime: OnceLock::new(),
            stores: Mutex::default(),
            gets: OnceLock::new(),
        }
    }

    /// The runtime, which is started now if it is not running.
    ///
    /// # Errors
    /// I/O: its threads cannot be started.
    pub(crate) fn handle(&self) -> Result<Handle> {
        if self.runtime.get().is_none() {
            // This fails if another provider was chosen before; that provider then serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let made = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name("outcore-cloud")
                .enable_all()
                .build()
                .map_err(|error| {
                    Error::io(CONNECT, &error).hint("raise the limit of threads (ulimit -u)")
                })?;
            // Another thread may have been faster; its runtime stays.
            if let Err(unused) = self.runtime.set(made) {
                unused.shutdown_background();
            }
        }
        let runtime = self.runtime.get();
        runtime
            .map(|runtime| runtime.handle().clone())
            .ok_or_else(|| Error::new(outcore_io::Kind::Io, CONNECT, "it has no runtime"))
    }

    /// The result of `work`, which the calling thread waits for unless the user wants to stop.
    ///
    /// # Errors
    /// I/O: the runtime cannot be started. Interrupted.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        self.handle()?.block_on(async {
            let mut work = pin!(work);
            loop {
                match tokio::time::timeout(LOOK_EVERY, &mut work).await {
                    Ok(done) => return Ok(done),
                    Err(_) => self.stop.check()?,
                }
            }
        })
    }

    /// Like `wait`, for work whose end should be known: whether an object is complete, or an upload
    /// is aborted. After a stop, the work has [`ANSWER_MAX`] to end.
    ///
    /// # Errors
    /// I/O: the runtime cannot be started. Interrupted: what the work has done is not known.
    pub(crate) fn wait_for_end<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut stopped: Option<Instant> = None;
        self.handle()?.block_on(async {
            let mut work = pin!(work);
            loop {
                if let Ok(done) = tokio::time::timeout(LOOK_EVERY, &mut work).await {
                    return Ok(done);
                }
                if self.stop.check().is_err()
                    && stopped.get_or_insert_with(Instant::now).elapsed() > ANSWER_MAX
                {
                    return Err(unanswered());
                }
            }
        })
    }

    /// The user's wish to stop.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The permits for GETs.
    pub(crate) fn gets(&self) -> Arc<Semaphore> {
        Arc::clone(self.gets.get_or_init(|| Arc::new(Semaphore::new(GETS_MAX))))
    }

    /// The client of an object's place.
    ///
    /// # Errors Usage: settings that the client rejects. I/O: no credentials.
    pub(crate) fn store(&self, address: &Address) -> Result<Arc<Store>> {
        // Clients start tasks of the runtime.
        let handle = self.handle()?;
        let _inside = handle.enter();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = stores.get(&address.place) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(connect(address, &handle)?);
        stores.insert(address.place.clone(), Arc::clone(&made));
        Ok(made)
    }

    /// The object called `path`.
    ///
    /// # Errors
    /// I/O: it does not exist, access is denied, the store fails. Usage: not the name of an object.
    pub(crate) fn find(&self, path: &Path) -> Result<Object> {
        let address = Address::parse(OPEN, path)?;
        let location = address.location(OPEN)?;
        let store = self.store(&address)?;
        let found = self.head(&store, &address, &location)?;
        let facts = found.map_err(|error| explain(OPEN, &address, &error))?;
        Ok(Object {
            address,
            location,
            store,
            facts,
        })
    }

    /// The facts of an object. The error tells whether the object or its bucket is missing.
    fn head(
        &self,
        store: &Store,
        address: &Address,
        location: &Key,
    ) -> Result<object_store::Result<ObjectMeta>> {
        let objects = Arc::clone(&store.objects);
        self.wait(async {
            match objects.head(location).await {
                Err(object_store::Error::NotFound { path, source })
                    if address.scheme != Scheme::Web =>
                {
                    // The answer has no body, and only the body says whether there is a bucket.
                    let listed = objects.list(Some(location)).try_next().await;
                    match listed {
                        Err(error) if is_missing_bucket(&error) => Err(error),
                        _ => Err(object_store::Error::NotFound { path, source }),
                    }
                }
                found => found,
            }
        })
    }

    /// Whether there is an object of that name.
    ///
    /// # Errors
    /// As [`Cloud::find`], except for a missing object.
    pub(crate) fn exists(&self, address: &Address, location: &Key) -> Result<bool> {
        let store = self.store(address)?;
        match self.head(&store, address, location)? {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(explain(OPEN, address, &error)),
        }
    }

    /// The objects whose keys begin with the folder `prefix`, as the store lists them.
    ///
    /// # Errors
    /// Usage: a web server. I/O.
    pub(crate) fn list(&self, address: &Address, prefix: &str) -> Result<Vec<ObjectMeta>> {
        if address.scheme == Scheme::Web {
            return Err(Error::usage(LIST, "web servers do not list their files")
                .path(address.path())
                .hint("name each file"));
        }
        let store = self.store(address)?;
        let prefix = Key::parse(prefix.trim_end_matches('/')).map_err(|error| {
            Error::usage(LIST, format!("no folder can have this name: {error}"))
                .path(address.path())
                .hint("check the pattern")
        })?;
        let listed = self.wait(store.objects.list(Some(&prefix)).try_collect::<Vec<_>>())?;
        listed.map_err(|error| explain(LIST, address, &error))
    }

    /// The objects that match a pattern, sorted; `*` and `?` do not match slashes.
    ///
    /// # Errors
    /// As [`Cloud::list`]; usage for an invalid pattern, and for one without a match.
    pub(crate) fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>> {
        let address = Address::parse(LIST, pattern)?;
        let refused = |cause: &str, hint: &str| {
            Error::usage(LIST, cause)
                .path(pattern)
                .hint(hint.to_owned())
        };
        let Ok(wanted) = glob::Pattern::new(&address.key) else {
            let hint = "in a pattern, * matches any characters, ? matches one character, and [ab] matches a or b";
            return Err(refused("the name is not a valid pattern", hint));
        };
        let literal = address.key.split(['*', '?', '[']).next().unwrap_or("");
        let folder = literal.rfind('/').map_or("", |at| &literal[..at]);
        let options = glob::MatchOptions {
            require_literal_separator: true,
            ..glob::MatchOptions::default()
        };
        let mut names: Vec<String> = self
            .list(&address, folder)?
            .into_iter()
            .map(|found| found.location.to_string())
            .filter(|key| wanted.matches_with(key, options) && !key.ends_with(MARKER_SUFFIX))
            .collect();
        names.sort();
        match names.is_empty() {
            true => Err(refused(
                "no object matches this pattern",
                "check the pattern",
            )),
            false => Ok(names
                .iter()
                .map(|key| address.with_key(key).path())
                .collect()),
        }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        // Ends at once: the queues have taken back all requests in flight.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: PAUSE_MIN,
            max_backoff: PAUSE_MAX,
            base: 2.0,
        },
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_MAX,
    }
}

/// A client, set by the environment.
fn connect(address: &Address, handle: &Handle) -> Result<Store> {
    let handle = handle.clone();
    let variables = Variables::of_process(address.scheme);
    variables.check_endpoint(CONNECT, address)?;
    let failed = |error: object_store::Error| misconfigured(CONNECT, address, &variables, &error);
    let time = object_store::ClientConfigKey::Timeout;
    Ok(match address.scheme {
        Scheme::S3 => {
            let made = Arc::new(s3(address, &variables)?.build().map_err(failed)?);
            Store {
                objects: Arc::<object_store::aws::AmazonS3>::clone(&made),
                parts: Some(made),
                handle,
            }
        }
        Scheme::Google => {
            let client = object_store::gcp::GoogleConfigKey::Client(time);
            let made = variables.applied(
                GoogleCloudStorageBuilder::new(),
                GoogleCloudStorageBuilder::with_config,
            );
            let made = made
                .with_bucket_name(&address.host)
                .with_config(client, REQUEST_MAX)
                .with_retry(retries());
            let made = Arc::new(made.build().map_err(failed)?);
            Store {
                objects: Arc::<object_store::gcp::GoogleCloudStorage>::clone(&made),
                parts: Some(made),
                handle,
            }
        }
        Scheme::Azure => {
            let client = object_store::azure::AzureConfigKey::Client(time);
            let made = variables.applied(
                MicrosoftAzureBuilder::new(),
                MicrosoftAzureBuilder::with_config,
            );
            let made = made.with_config(client, REQUEST_MAX).with_retry(retries());
            let made = match address.host.contains('@') {
                true => made.with_url(address.place.clone()),
                false => made.with_container_name(&address.host),
            };
            let made = Arc::new(made.build().map_err(failed)?);
            Store {
                objects: Arc::<object_store::azure::MicrosoftAzure>::clone(&made),
                parts: Some(made),
                handle,
            }
        }
        Scheme::Web => {
            let is_plain = address.place.starts_with("http://");
            let options = ClientOptions::new()
                .with_config(time, REQUEST_MAX)
                .with_allow_http(is_plain);
            let made = HttpBuilder::new()
                .with_url(&address.place)
                .with_client_options(options)
                .with_retry(retries());
            Store {
                objects: Arc::new(made.build().map_err(failed)?),
                parts: None,
                handle,
            }
        }
    })
}

/// The settings of S3. Each part that is written has a checksum, which the store verifies.
fn s3(address: &Address, variables: &Variables) -> Result<AmazonS3Builder> {
    let is_anonymous = variables.is_true("AWS_SKIP_SIGNATURE");
    let others = [
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    let is_given = variables.get("AWS_ACCESS_KEY_ID").is_some()
        || others.iter().any(|name| variables.get(name).is_some());
    // Outside of EC2, nothing answers at the address where a machine asks for its role.
    let has_role = variables.get("AWS_METADATA_ENDPOINT").is_some() || is_of_ec2();
    let has_role = has_role && !variables.is_true("AWS_EC2_METADATA_DISABLED");
    if !is_anonymous && !is_given && !has_role {
        return Err(no_credentials(CONNECT, address));
    }
    let made = AmazonS3Builder::new().with_client_options(s3_client(variables)?);
    let made = variables.applied(made, AmazonS3Builder::with_config);
    let made = made
        .with_bucket_name(&address.host)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_config(
            AmazonS3ConfigKey::Client(object_store::ClientConfigKey::Timeout),
            REQUEST_MAX,
        )
        .with_retry(retries());
    Ok(match variables.get("AWS_CHECKSUM_ALGORITHM").is_some() {
        true => made,
        false => made.with_checksum_algorithm(Checksum::SHA256),
    })
}

/// The client of S3. As in the vendor's tools, the certificates in the file of `AWS_CA_BUNDLE` take
/// the place of the system's. For all stores, `SSL_CERT_FILE` and `SSL_CERT_DIR` name the system's.
fn s3_client(variables: &Variables) -> Result<ClientOptions> {
    let options = ClientOptions::new();
    let Some(name) = variables.get(CA_BUNDLE) else {
        return Ok(options);
    };
    let path = Path::new(name);
    let text = read_text(CONNECT, path)?;
    let bundle = Certificate::from_pem_bundle(text.as_bytes());
    let bundle = bundle.map_err(|_| invalid_bundle(path))?;
    if bundle.is_empty() {
        let cause = format!("the file of {CA_BUNDLE} has no certificates");
        return Err(Error::usage(CONNECT, cause)
            .path(path)
            .hint("name a file with certificates in PEM"));
    }
    let options = bundle
        .into_iter()
        .fold(options, ClientOptions::with_root_certificate)
        .with_no_system_certificates(true);
    // The certificates are read when a client is made. This one has no other settings that can be
    // wrong, and connects to nothing.
    let trial = HttpBuilder::new()
        .with_url("https://localhost")
        .with_client_options(options.clone());
    match trial.build() {
        Ok(_) => Ok(options),
        Err(_) => Err(invalid_bundle(path)),
    }
}

/// The error for a file of authorities that cannot be used.
fn invalid_bundle(path: &Path) -> Error {
    let cause = format!("the file of {CA_BUNDLE} has an invalid certificate");
    Error::usage(CONNECT, cause)
        .path(path)
        .hint("name a file with certificates in PEM")
}

/// Whether this is a machine of EC2, according to its firmware.
fn is_of_ec2() -> bool {
    let names = ["sys_vendor", "bios_version", "board_vendor"];
    names.iter().any(|name| {
        let path = format!("/sys/class/dmi/id/{name}");
        let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let mut text = [0; 64];
        let got = opened.and_then(|file| rustix::io::read(file, &mut text));
        let found = text.get(..got.unwrap_or(0)).unwrap_or_default();
        String::from_utf8_lossy(found)
            .to_ascii_lowercase()
            .contains("amazon")
    })
}
