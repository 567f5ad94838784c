//! Removes credentials from texts.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use winpool_api::bounds::shortened;

/// The maximum length of a text, in characters.
const MAX_TEXT: usize = 2048;
/// What replaces a credential.
pub const MASK: &str = "***";

/// The words that name a credential, alone or at the end of a name such as `DB_PASS` or `--docker-password`.
const WORDS: &str = "password|passwd|passphrase|pwd|secret|token|(?:api|account|access|secret|private|shared|master|encryption)[-_]?key|\
                     sig|signature|credentials?|dockerconfigjson|(?:\\b|_)pass|(?:\\b|_)auth";

/// Credentials in a text, and what replaces them. `WORD` is one of [`WORDS`].
const CREDENTIALS: &[(&str, &str)] = &[
    // Private keys, also in one line, and without their end.
    (r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)", MASK),
    (r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*)?", MASK),
    (r"(?i)(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{6,}", "$1 ***"),
    // The prefixes of GitHub, GitLab, Slack, Vault, AWS, Google, OpenAI, Stripe, npm, PyPI, Docker, DigitalOcean, Azure DevOps, age.
    (
        r"\b(gh[opusr]_|github_pat_|gl(?:pat|dt|rt|soat|cbt|ptt|ft|imt|agent|oas|ffct)-|xox[a-z]-|xapp-|hv[sbr]\.|A[KS]IA|AIza|ya29\.|sk[-_](?:live_|test_|proj-|ant-)?|rk_live_|npm_|pypi-|dckr_pat_|do[opr]_v1_|AGE-SECRET-KEY-)[A-Za-z0-9._/+=-]{12,}",
        "$1***",
    ),
    (r#"(?i)((?:WORD)\\*["']?[ \t]*[=:][ \t]*)(\\*)"[^"\\]{3,}\\*""#, r#"$1$2"***$2""#),
    (r"(?i)((?:WORD)[ \t]*[=:][ \t]*)'[^']{3,}'", "$1'***'"),
    (r#"(?i)(WORD)(\\*["']?[ \t]*[=:][ \t]*["']?)[!#-%(-+\--:<-\[\]-~]{3,}"#, "$1$2***"),
    // The value of a flag is the next word, or the next item of a list.
    (r#"(?i)((?:^|[\s"'\[,(=])-{1,2}[a-z0-9_-]*(?:WORD)\\*["']?[\s,]+\\*["']?)[^\s"',\\-][^\s"',\\]*"#, "$1***"),
    (r#"((?:^|\s)-u[ \t]+["']?)[^\s:"']+:[^\s"']+"#, "$1***"),
    (r"://[!-.0-9;-?A-~]*:[!-.0-?A-~]+@", "://***@"),
];

static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled =
        CREDENTIALS.iter().map(|(pattern, with)| Some((Regex::new(&pattern.replace("WORD", WORDS)).ok()?, *with)));
    compiled.flatten().collect()
});

/// A text without credentials, in at most 2,048 characters.
pub fn masked(text: &str) -> String {
    let masked = PATTERNS
        .iter()
        .fold(Cow::Borrowed(text), |text, (pattern, with)| Cow::Owned(pattern.replace_all(&text, *with).into_owned()));
    shortened(&masked, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_credentials_is_valid() {
        assert_eq!(PATTERNS.len(), CREDENTIALS.len());
    }

    #[test]
    fn a_text_has_no_credentials() {
        let table = [
            ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
            ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln and more", "*** and more"),
            ("--password=hunter22 --user=x", "--password=*** --user=x"),
            ("{\"token\": \"abcdef\", \"a\": 1}", "{\"token\": \"***\", \"a\": 1}"),
            ("https://u.blob.example/x?sv=1&sig=aGVsbG8%3D&x=1", "https://u.blob.example/x?sv=1&sig=***&x=1"),
            ("Get \"https://joe:s3cret@registry.example/v2/\"", "Get \"https://***@registry.example/v2/\""),
            ("AccountKey=abc123==;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"),
            ("kubeadm join a:6443 --token abcdef.0123456789abcdef --v 5", "kubeadm join a:6443 --token *** --v 5"),
            ("DB_PASS=hunter22 HOST=a", "DB_PASS=*** HOST=a"),
            ("args: [\"--password\", \"hunter22\", \"-v\"]", "args: [\"--password\", \"***\", \"-v\"]"),
        ];
        for (text, expected) in table {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(expected), expected, "masked once is masked");
        }
    }

    #[test]
    fn no_credential_of_any_kind_survives() {
        let random = "q7Zk2mXw9RtB4nLs8VyE1cGh6DfJ3pUa";
        let forms = [
            "password=HIDDEN",
            "Password: HIDDEN",
            "db_password = HIDDEN",
            "PASSWORD='HIDDEN'",
            "pwd=HIDDEN;",
            "passwd:HIDDEN",
            "passphrase=\"HIDDEN\"",
            "password=\"two HIDDEN words\"",
            "password: 'two HIDDEN words'",
            "DB_PASS=HIDDEN",
            "MYSQL_ROOT_PASSWORD=HIDDEN",
            "PASS: HIDDEN",
            "api_key=HIDDEN",
            "apikey: HIDDEN",
            "x-api-key: HIDDEN",
            "API-KEY=HIDDEN",
            "client_secret=HIDDEN",
            "clientSecret: HIDDEN",
            "secretKey=HIDDEN",
            "aws_secret_access_key = HIDDEN",
            "aws_session_token=HIDDEN",
            "SharedAccessKey=HIDDEN",
            "DefaultEndpointsProtocol=https;AccountKey=HIDDEN;x=y",
            "private_key: HIDDEN",
            "credentials=HIDDEN",
            "X-Amz-Signature=HIDDEN&a=b",
            "?sig=HIDDEN",
            "X-Vault-Token: HIDDEN",
            "{\"password\":\"HIDDEN\"}",
            "{\\\"password\\\":\\\"HIDDEN\\\"}",
            "{\"auths\":{\"a\":{\"auth\":\"HIDDEN\"}}}",
            ".dockerconfigjson: HIDDEN",
            "--password HIDDEN",
            "--password=HIDDEN",
            "--docker-password HIDDEN",
            "-Password HIDDEN",
            "-token HIDDEN",
            "--token  \"HIDDEN\"",
            "--client-secret 'HIDDEN'",
            "[\"--api-key\",\"HIDDEN\"]",
            "--registry-token HIDDEN",
            "curl -u joe:HIDDEN https://a",
            "/password:HIDDEN",
            "https://joe:HIDDEN@host/x",
            "postgres://:HIDDEN@db:5432/a",
            "Authorization: Basic HIDDEN",
            "authorization: bearer HIDDEN",
            "Proxy-Authorization: Basic HIDDEN",
            "ghp_HIDDEN",
            "gho_HIDDEN",
            "ghs_HIDDEN",
            "github_pat_HIDDEN",
            "glpat-HIDDEN",
            "glrt-HIDDEN",
            "xoxb-HIDDEN",
            "xoxp-HIDDEN",
            "xapp-HIDDEN",
            "hvs.HIDDEN",
            "hvb.HIDDEN",
            "AKIAHIDDEN",
            "ASIAHIDDEN",
            "AIzaHIDDEN",
            "ya29.HIDDEN",
            "sk-HIDDEN",
            "sk_live_HIDDEN",
            "sk-ant-HIDDEN",
            "npm_HIDDEN",
            "pypi-HIDDEN",
            "dckr_pat_HIDDEN",
            "dop_v1_HIDDEN",
            "AGE-SECRET-KEY-HIDDEN",
            "eyJhbGciOiJIUzI1NiJ9.eyJHIDDEN.HIDDEN",
            "-----BEGIN PRIVATE KEY-----\nHIDDEN\n-----END PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----\\nHIDDEN\\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN OPENSSH PRIVATE KEY----- HIDDEN -----END OPENSSH PRIVATE KEY-----",
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nHIDDEN\n-----END PGP PRIVATE KEY BLOCK-----",
            "-----BEGIN EC PRIVATE KEY-----\nHIDDEN and its end is cut",
        ];
        for form in forms {
            for around in ["FORM", "failed to start: FORM", "\"FORM\": exit status 1", "run FORM --v 2"] {
                let text = around.replace("FORM", &form.replace("HIDDEN", random));
                let masked = masked(&text);
                assert!(!masked.contains(random) && masked.contains(MASK), "{text} -> {masked}");
            }
        }
    }

    #[test]
    fn ordinary_texts_are_unchanged() {
        let texts = [
            "failed to pull: unauthorized",
            "secret \"web-tls\" not found",
            "volume \"default-token-x7k2p\" : timed out",
            "couldn't find key password in Secret shop/db",
            "MountVolume.SetUp failed for volume \"kube-api-access-5f7xk\" : failed to fetch token from the API server",
            "Back-off pulling image \"mcr.microsoft.com/windows/servercore:ltsc2022\"",
            "hcs::CreateComputeSystem web: The container operating system does not match the host operating system.",
            "failed to create containerd task: bypass the compass, 3 of 4 passed",
            "desk-lamp-1, task-sk-2 and risk_2 are not ready",
            "node win-1.example.com: PLEG is not healthy: pleg was last seen active 3m0s ago; threshold is 3m0s",
            "-----BEGIN CERTIFICATE----- MIIB -----END CERTIFICATE-----",
            "Get \"https://10.0.0.1:10250/pods\": dial tcp 10.0.0.1:10250: connect: connection refused",
            "web.17a2b3c4d5e6f708 --v 5 -u 1000",
        ];
        for text in texts {
            assert_eq!(masked(text), text);
        }
    }
}
