//! The users of the API server and their credentials.

use std::path::Path;

/// The namespace of the operator, as `config/` has it.
pub const OPERATOR_NAMESPACE: &str = "winpool-system";
/// Namespace and name of the ServiceAccount of the node agents, as `config/agent` has them.
pub const AGENT: &str = "winpool-agent";

/// The user of a request. Each has a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A user with all permissions.
    Admin,
    /// The operator, with the user name and groups of the shipped ServiceAccount, so that only the shipped bindings
    /// grant it permissions.
    Operator,
    /// The node agents, with the user name and groups of their shipped ServiceAccount.
    Agent,
    /// A user with all permissions, whose writes conflict with the operator's.
    OtherA,
    /// Another such user.
    OtherB,
}

impl User {
    pub const ALL: [Self; 5] = [Self::Admin, Self::Operator, Self::Agent, Self::OtherA, Self::OtherB];

    /// The user name in the API server.
    pub fn name(self) -> String {
        match self {
            Self::Operator => format!("system:serviceaccount:{OPERATOR_NAMESPACE}:winpool"),
            Self::Agent => format!("system:serviceaccount:{AGENT}:{AGENT}"),
            _ => self.short_name().to_owned(),
        }
    }

    fn groups(self) -> String {
        match self {
            Self::Operator => format!("system:serviceaccounts,system:serviceaccounts:{OPERATOR_NAMESPACE}"),
            Self::Agent => format!("system:serviceaccounts,system:serviceaccounts:{AGENT}"),
            _ => "system:masters".to_owned(),
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
