//! The patterns of the schema, each with a description and a remedy.

/// A pattern. Messages have the form `… is not DESCRIPTION: REMEDY`.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// The regular expression.
    pub pattern: &'static str,
    /// A description of matching values.
    pub description: &'static str,
    /// What to write instead.
    pub remedy: &'static str,
}

/// Generates the constants and their list.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident $pattern:literal $description:literal $remedy:literal)*) => {
        $($(#[$doc])* pub const $name: Pattern =
            Pattern { pattern: $pattern, description: $description, remedy: $remedy };)*

        /// Every pattern of the schema.
        pub const ALL: &[Pattern] = &[$($name,)*];
    };
}

patterns! {
    /// The key of a label or taint.
    KEY r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" "a valid key"
        "write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix: example.com/team"
    /// The value of a label or taint.
    LABEL_VALUE r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$" "a valid value"
        "write at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
    /// The name of an object: a DNS subdomain.
    OBJECT_NAME r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" "the name of an object"
        "write lower-case letters, digits, '-' and '.', such as windows-ltsc2022"
    /// The handler of a RuntimeClass: a DNS label, or empty.
    HANDLER r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" "the name of a handler"
        "write lower-case letters, digits and '-', such as runhcs-wcow-process"
    /// A quantity that is not negative.
    QUANTITY r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$" "a quantity"
        "write a quantity such as 500m or 2Gi"
    /// An eviction threshold: a quantity or a percentage.
    THRESHOLD r"^[0-9]+(\.[0-9]{1,3})?(%|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$" "a threshold"
        "write a quantity such as 500Mi or a percentage such as 10%"
    /// Registry and path of an image, or empty.
    REPOSITORY r"^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)?$" "an image repository"
        "write registry, path and no tag, such as registry.example/kubernetes/pause"
    /// The tag of an image, or empty.
    TAG r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$" "an image tag"
        "write letters, digits, dots, dashes and underscores, such as 3.10.1"
    /// The host of a registry, with an optional port.
    REGISTRY r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?$" "a registry"
        "write its host, such as docker.io or registry.example:5000"
    /// The address of a registry mirror.
    ENDPOINT r#"^https?://[^\s"']+$"# "the address of a registry"
        "write a plain address, such as https://mirror.example"
    /// The address of an HTTP proxy, or empty.
    PROXY r#"^(https?://[^\s"'@]+)?$"# "the address of a proxy without credentials"
        "write a plain address, such as http://proxy.example:3128"
    /// A duration.
    DURATION r"^([0-9]+(\.[0-9]+)?(h|m|s))+$" "a duration"
        "write hours and minutes, such as 30m"
    /// A percentage from 1% to 100%.
    PERCENTAGE r"^([1-9][0-9]?|100)%$" "a percentage"
        "write a number of nodes such as 1, or a percentage from 1% to 100%"
    /// A duration from one minute to one day.
    UP_TO_A_DAY r"^(([1-9][0-9]{0,2}|1[0-3][0-9]{2}|14[0-3][0-9]|1440)m|([1-9]|1[0-9]|2[0-4])h)$"
        "a duration between 1m and 24h"
        "write minutes or hours, such as 10m"
    /// A cron expression of five fields, each of `*`, numbers and names. Extensions of cron differ between programs.
    CRON r"^(\*|[0-9]{1,2}|[A-Za-z]{3})([,/-](\*|[0-9]{1,2}|[A-Za-z]{3}))*( (\*|[0-9]{1,2}|[A-Za-z]{3})([,/-](\*|[0-9]{1,2}|[A-Za-z]{3}))*){4}$"
        "a cron expression without extensions such as L, W, # and @daily"
        "write minute, hour, day of month, month and day of week, such as \"0 22 * * SAT\""
    /// The name of a time zone.
    TIME_ZONE r"^[A-Za-z][A-Za-z0-9_+/-]*$" "the name of a time zone"
        "write a name of the IANA database, such as Europe/Berlin"
    /// A release line of containerd, or empty.
    CONTAINERD_LINE r"^([0-9]{1,2}\.[0-9]{1,2})?$" "a release line of containerd"
        "write major and minor in quotes, such as \"2.2\""
    /// A SHA-256 digest.
    DIGEST r"^[0-9a-f]{64}$" "a SHA-256 digest"
        "write 64 hexadecimal digits"
    /// An absolute path on Windows, or empty.
    WINDOWS_PATH r#"^([A-Za-z]:[\\/][^<>:"|?*]*)?$"# "an absolute Windows path"
        r"write drive and path, such as D:\containerd"
    /// An IP address, or empty.
    IP_ADDRESS r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)?$" "an IP address"
        "write an address such as 10.244.1.2"
    /// A string without spaces and quotes, or empty.
    PLAIN r#"^[^\s"']*$"# "a string without spaces and quotes"
        "remove spaces and quotes"
}
