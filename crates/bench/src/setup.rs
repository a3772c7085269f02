//! Before the run: finds or creates the feature, and reads and stores the data set's description.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use liststore_client::{Client, ClientError, Failure, Request, Retries, ServerUrl, Token};
use liststore_contract::definition::GivenProperties;
use liststore_contract::domain::{self, EntityType, FeatureId, FeatureName, Invalid, Labels, Ttl, ValueType};
use liststore_contract::operations::create_feature::FeatureInput;
use liststore_contract::operations::update_feature::FeaturePatch;
use liststore_contract::operations::{batch_get, create_feature, get_feature, get_items, update_feature};
use liststore_contract::wire::{Annotations, ErrorCode, Feature};

use super::connection::Connection;
use super::dataset::{Description, FoundData};
use super::endpoint::Endpoint;
use super::operation::LoadRequest;
use super::protocol::Protocol;
use super::resp::{self, Resp};
use super::response::ResponseStatus;

/// A catalog follows a new feature within its poll interval.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(30);
const VISIBLE_PAUSE: Duration = Duration::from_millis(100);
const REDIS_TIMEOUT: Duration = Duration::from_secs(10);

/// The side that stores the lists.
pub enum Side {
    Server(Box<ServerSide>),
    Redis(Box<RedisSide>),
}

pub struct ServerSide {
    client: Client,
    id: FeatureId,
    pub endpoint: Endpoint,
    pub addresses: Vec<SocketAddr>,
    /// The feature's further labels.
    labels: BTreeMap<String, String>,
}

pub struct RedisSide {
    pub addresses: Vec<SocketAddr>,
    key: String,
    protocol: Protocol,
}

impl Side {
    pub fn addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Server(side) => &side.addresses,
            Self::Redis(side) => &side.addresses,
        }
    }

    /// The existing data, and the TTL of its items (endless in Redis).
    pub async fn find(&mut self) -> Result<(FoundData, Ttl), Failure> {
        match self {
            Self::Server(side) => side.find().await,
            Self::Redis(side) => Ok((side.find().await?, Ttl::MAX)),
        }
    }

    /// Creates the feature with this description.
    pub async fn create(&self, ttl: Ttl, description: Description) -> Result<(), Failure> {
        match self {
            Self::Server(side) => side.create(ttl, description).await,
            Self::Redis(side) => side.describe(description).await,
        }
    }

    /// Changes the description.
    pub async fn describe(&self, description: Description) -> Result<(), Failure> {
        match self {
            Self::Server(side) => side.describe(description).await,
            Self::Redis(side) => side.describe(description).await,
        }
    }

    /// Waits until lists can be read: another server than that which created the feature may know
    /// of it a little later.
    pub async fn await_visible(&self, protocol: &Protocol, timeout: Duration) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let mut connection = Connection::new();
            let code = match ask(&mut connection, protocol, self.addresses(), timeout).await? {
                ResponseStatus::Done => return Ok(()),
                ResponseStatus::Refused { code, .. } => code,
            };
            if began.elapsed() >= VISIBLE_TIMEOUT {
                return Err(Failure::failed(format!("cannot read the lists: the server returns {code}")));
            }
            tokio::time::sleep(VISIBLE_PAUSE).await;
        }
    }
}

async fn ask(
    connection: &mut Connection,
    protocol: &Protocol,
    addresses: &[SocketAddr],
    timeout: Duration,
) -> Result<ResponseStatus, Failure> {
    protocol.render(&LoadRequest::Get { list: 0 }, &mut connection.request);
    connection.open(addresses).await.map_err(|e| Failure::failed(e.to_string()))?;
    let answer = connection.exchange(protocol, timeout).await.map_err(|e| Failure::failed(e.to_string()))?;
    Ok(answer.status)
}

impl ServerSide {
    pub async fn new(url: &ServerUrl, entity_type: EntityType, name: FeatureName) -> Result<Self, Failure> {
        let plain = url.plain().map_err(Failure::Usage)?;
        let names = [entity_type.as_str(), name.as_str()];
        let (lists_path, _) = get_items::ROW.path_around_last(&names);
        let authorization = url.token().map(Token::authorization);
        let endpoint = Endpoint {
            host: plain.host_header,
            batch_path: plain.path.clone() + batch_get::ROW.path,
            lists_path: plain.path + &lists_path,
            authorization,
            entity_type: entity_type.to_string(),
            feature: name.to_string(),
        };
        let addresses = resolve(&plain.host, plain.port).await?;
        let client = Client::new(url.clone(), None, Retries::PATIENT)?.for_people();
        let id = FeatureId { entity_type, name };
        Ok(Self { client, id, endpoint, addresses, labels: BTreeMap::new() })
    }

    async fn find(&mut self) -> Result<(FoundData, Ttl), Failure> {
        let request = Request::of_feature(&get_feature::ROW, &self.id);
        let feature: Feature = match self.client.ask(&request).await {
            Ok(feature) => feature,
            Err(ClientError::Problem(problem)) if problem.details.code == ErrorCode::FeatureNotFound.name() => {
                return Ok((FoundData::Nothing, Ttl::MAX));
            }
            Err(error) => return Err(error.into()),
        };
        if feature.value_type != ValueType::String {
            let text = format!("{} has values of type {}: bench needs strings", self.id, feature.value_type);
            return Err(Failure::failed(text));
        }
        let ttl = feature.properties.ttl;
        let found = Description::from_labels(&feature.labels).map_or(FoundData::Foreign, FoundData::DataSet);
        self.labels = feature.labels;
        Ok((found, ttl))
    }

    async fn create(&self, ttl: Ttl, description: Description) -> Result<(), Failure> {
        let FeatureId { entity_type, name } = self.id.clone();
        let input = FeatureInput {
            entity_type,
            name,
            value_type: ValueType::String,
            properties: GivenProperties { ttl: Some(ttl), ..GivenProperties::default() },
            annotations: Annotations {
                description: Some(domain::Description::new("a data set of liststore bench").map_err(invalid)?),
                owner: None,
                labels: Some(Labels::new(description.to_labels()).map_err(invalid)?),
            },
        };
        self.client.send(&Request::new(&create_feature::ROW, &[]).body(&input)?).await?;
        Ok(())
    }

    async fn describe(&self, description: Description) -> Result<(), Failure> {
        let mut labels = self.labels.clone();
        labels.extend(description.to_labels());
        let labels = Some(Labels::new(labels).map_err(invalid)?);
        let patch = FeaturePatch::from(Annotations { labels, ..Annotations::default() });
        let request = Request::of_feature(&update_feature::ROW, &self.id).body(&patch)?;
        self.client.send(&request.repeatable()).await?;
        Ok(())
    }
}

fn invalid(invalid: Invalid) -> Failure {
    Failure::failed(invalid.to_string())
}

impl RedisSide {
    pub async fn new(address: &str, feature: &str, protocol: Resp) -> Result<Self, Failure> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let port = port.parse().map_err(|_| Failure::Usage("--redis must be HOST:PORT".to_owned()))?;
        let addresses = resolve(host, port).await?;
        Ok(Self { addresses, key: format!("{feature}:data-set"), protocol: Protocol::Resp(protocol) })
    }

    async fn find(&self) -> Result<FoundData, Failure> {
        let words = self.command(&["HGETALL", &self.key]).await?;
        let mut words = words.into_iter();
        let labels: BTreeMap<String, String> = std::iter::from_fn(|| Some((words.next()?, words.next()?))).collect();
        if labels.is_empty() {
            return Ok(FoundData::Nothing);
        }
        Ok(Description::from_labels(&labels).map_or(FoundData::Foreign, FoundData::DataSet))
    }

    async fn describe(&self, description: Description) -> Result<(), Failure> {
        let labels = description.to_labels();
        let mut words = vec!["HSET", &self.key];
        words.extend(labels.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
        self.command(&words).await.map(|_| ())
    }

    /// Sends one command; returns the strings of its answer.
    async fn command(&self, words: &[&str]) -> Result<Vec<String>, Failure> {
        let failed = |text: String| Failure::failed(format!("redis: {text}"));
        let mut connection = Connection::new();
        connection.open(&self.addresses).await.map_err(|e| failed(e.to_string()))?;
        connection.request = format!("*{}\r\n", words.len()).into_bytes();
        words.iter().for_each(|word| resp::bulk(word.as_bytes(), &mut connection.request));
        let answer = connection.exchange(&self.protocol, REDIS_TIMEOUT).await.map_err(|e| failed(e.to_string()))?;
        if let ResponseStatus::Refused { .. } = answer.status {
            return Err(failed(String::from_utf8_lossy(connection.body(&answer)).trim().to_owned()));
        }
        Ok(resp::strings(connection.body(&answer)))
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let failed = |reason: String| Failure::failed(format!("cannot find {host}: {reason}"));
    let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await.map_err(|e| failed(e.to_string()))?.collect();
    if addresses.is_empty() { Err(failed("the host has no address".to_owned())) } else { Ok(addresses) }
}
