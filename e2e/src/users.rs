//! Who talks to the API server, and how each is known to it.

use std::path::Path;

/// The namespace of the operator, as `config/` has it.
pub const OPERATOR_NAMESPACE: &str = "winpool-system";
/// The ServiceAccount of the operator, as `config/` has it.
pub const OPERATOR_SERVICE_ACCOUNT: &str = "winpool";

/// Who a request comes from. The API server knows each by a bearer token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// The operator: the user name and groups of the shipped ServiceAccount, so that the shipped bindings, and nothing
    /// else, say what it may do.
    Operator,
    /// Somebody who may do everything and works against the operator.
    OtherA,
    /// Another one.
    OtherB,
}

impl User {
    /// Every user.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operator, Self::OtherA, Self::OtherB];

    /// The name that the API server knows the user by.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Admin => "admin".to_owned(),
            Self::Operator => format!("system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR_SERVICE_ACCOUNT}"),
            Self::OtherA => "other-a".to_owned(),
            Self::OtherB => "other-b".to_owned(),
        }
    }

    fn groups(self) -> String {
        match self {
            Self::Admin | Self::OtherA | Self::OtherB => "system:masters".to_owned(),
            Self::Operator => format!("system:serviceaccounts,system:serviceaccounts:{OPERATOR_NAMESPACE}"),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::OtherA => "other-a",
            Self::OtherB => "other-b",
        }
    }

    fn token(self) -> String {
        format!("token-of-{}", self.word())
    }

    /// A line of the API server's token file.
    pub(crate) fn token_line(self) -> String {
        format!("{},{},{},\"{}\"\n", self.token(), self.name(), self.word(), self.groups())
    }

    /// A kubeconfig for the API server at `url`, whose certificate the file `authority` vouches for.
    pub(crate) fn kubeconfig(self, url: &str, authority: &Path) -> String {
        let (word, token, authority) = (self.word(), self.token(), authority.display());
        let namespace = if self == Self::Operator { OPERATOR_NAMESPACE } else { "default" };
        format!(
            r#"apiVersion: v1
kind: Config
current-context: {word}
clusters:
- name: winpool
  cluster: {{ server: "{url}", certificate-authority: "{authority}" }}
users:
- name: {word}
  user: {{ token: "{token}" }}
contexts:
- name: {word}
  context: {{ cluster: winpool, user: {word}, namespace: {namespace} }}
"#
        )
    }
}
