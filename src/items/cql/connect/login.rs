//! How a connection logs in: with the password as it is now, where a file holds it.

use async_trait::async_trait;
use scylla::authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator};

use crate::items::cql::options::{Credentials, Password};

pub struct Login(Credentials);

impl Login {
    pub fn new(credentials: Credentials) -> Self {
        Self(credentials)
    }
}

#[async_trait]
impl AuthenticatorProvider for Login {
    async fn start_authentication_session(
        &self,
        authenticator_name: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let password = match &self.0.password {
            Password::Given(password) => password.clone(),
            Password::File(path) => {
                let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                    tracing::warn!(path = %path.display(), %error, "cannot read items.cql.password_file");
                    "cannot read the password".to_owned()
                })?;
                text.trim().to_owned()
            }
        };
        let login = PlainTextAuthenticator::new(self.0.username.clone(), password);
        login.start_authentication_session(authenticator_name).await
    }
}
