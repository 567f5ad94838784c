//! The users of the API server and their credentials.

use std::path::Path;

/// The namespace of the operator, as `config/` has it.
pub const OPERATOR_NAMESPACE: &str = "winpool-system";
/// The ServiceAccount of the operator, as `config/` has it.
pub const OPERATOR_SERVICE_ACCOUNT: &str = "winpool";

/// The namespace of the agents, and the name of their ServiceAccount, as `config/` has them.
const AGENT_NAMESPACE: &str = "winpool-agent";

/// The user of a request. Each has a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A user with all permissions.
    Admin,
    /// The operator, with the user name and groups of the shipped ServiceAccount, so that only the shipped bindings
    /// grant it permissions.
    Operator,
    /// The agents, with the user name and groups of the ServiceAccount in `config/agent`.
    Agent,
    /// A user with all permissions, whose writes conflict with the operator's.
    OtherA,
    /// Another such user.
    OtherB,
}

impl User {
    /// Every user.
    pub const ALL: [Self; 5] = [Self::Admin, Self::Operator, Self::Agent, Self::OtherA, Self::OtherB];

    /// The user name in the API server.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Admin => "admin".to_owned(),
            Self::Operator => format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR_SERVICE_ACCOUNT}"),
            Self::Agent => format!("system:serviceaccount:{AGENT_NAMESPACE}:{AGENT_NAMESPACE}"),
            Self::OtherA => "other-a".to_owned(),
            Self::OtherB => "other-b".to_owned(),
        }
    }

    fn groups(self) -> String {
        match self {
            Self::Admin | Self::OtherA | Self::OtherB => "system:masters".to_owned(),
            Self::Operator => format!("system:serviceaccounts,system:serviceaccounts:{OPERATOR_NAMESPACE}"),
            Self::Agent => format!("system:serviceaccounts,system:serviceaccounts:{AGENT_NAMESPACE}"),
        }
    }

    pub(crate) fn short_name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::OtherA => "other-a",
            Self::OtherB => "other-b",
        }
    }

    fn token(self) -> String {
        format!("token-of-{}", self.short_name())
    }

    /// The line of the user in the API server's token file.
    pub(crate) fn token_line(self) -> String {
        format!("{},{},{},\"{}\"\n", self.token(), self.name(), self.short_name(), self.groups())
    }

    /// A kubeconfig for the API server at `url`, whose certificate is signed by the authority in the file `authority`.
    pub(crate) fn kubeconfig(self, url: &str, authority: &Path) -> String {
        let (name, token, authority) = (self.short_name(), self.token(), authority.display());
        let namespace = if self == Self::Operator { OPERATOR_NAMESPACE } else { "default" };
        format!(
            r#"apiVersion: v1
kind: Config
current-context: {name}
clusters:
- name: winpool
  cluster: {{ server: "{url}", certificate-authority: "{authority}" }}
users:
- name: {name}
  user: {{ token: "{token}" }}
contexts:
- name: {name}
  context: {{ cluster: winpool, user: {name}, namespace: {namespace} }}
"#
        )
    }
}
