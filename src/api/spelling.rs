//! The patterns of the schema, each with a description and a remedy.

/// A pattern. Messages have the form `… is not DESCRIPTION: REMEDY`.
#[derive(Clone, Copy, Debug)]
pub struct Spelling {
    /// The regular expression.
    pub pattern: &'static str,
    /// A description of matching values.
    pub description: &'static str,
    /// What to write instead.
    pub remedy: &'static str,
}

/// The key of a label or taint.
pub const KEY: Spelling = Spelling {
    pattern: r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    description: "a valid key",
    remedy: "write a name of at most 63 letters, digits, '-', '_' or '.', with an optional DNS prefix: example.com/team",
};

/// The value of a label or taint.
pub const LABEL_VALUE: Spelling = Spelling {
    pattern: r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    description: "a valid value",
    remedy: "write at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit",
};

/// The name of an object: a DNS subdomain.
pub const OBJECT_NAME: Spelling = Spelling {
    pattern: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    description: "the name of an object",
    remedy: "write lower-case letters, digits, '-' and '.', such as windows-ltsc2022",
};

/// The handler of a RuntimeClass: a DNS label, or empty.
pub const HANDLER: Spelling = Spelling {
    pattern: r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    description: "the name of a handler",
    remedy: "write lower-case letters, digits and '-', such as runhcs-wcow-process",
};

/// A quantity that is not negative.
pub const QUANTITY: Spelling = Spelling {
    pattern: r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$",
    description: "a quantity",
    remedy: "write a quantity such as 500m or 2Gi",
};

/// An eviction threshold: a quantity or a percentage.
pub const THRESHOLD: Spelling = Spelling {
    pattern: r"^[0-9]+(\.[0-9]{1,3})?(%|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$",
    description: "a threshold",
    remedy: "write a quantity such as 500Mi or a percentage such as 10%",
};

/// Registry and path of an image, or empty.
pub const REPOSITORY: Spelling = Spelling {
    pattern: r"^([a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)?$",
    description: "an image repository",
    remedy: "write registry, path and no tag, such as registry.example/kubernetes/pause",
};

/// The tag of an image, or empty.
pub const TAG: Spelling = Spelling {
    pattern: r"^([A-Za-z0-9_][A-Za-z0-9._-]*)?$",
    description: "an image tag",
    remedy: "write letters, digits, dots, dashes and underscores, such as 3.10.1",
};

/// The host of a registry, with an optional port.
pub const REGISTRY: Spelling = Spelling {
    pattern: r"^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?$",
    description: "a registry",
    remedy: "write its host, such as docker.io or registry.example:5000",
};

/// The address of a registry mirror.
pub const ENDPOINT: Spelling = Spelling {
    pattern: r#"^https?://[^\s"']+$"#,
    description: "the address of a registry",
    remedy: "write a plain address, such as https://mirror.example",
};

/// The address of an HTTP proxy, or empty.
pub const PROXY: Spelling = Spelling {
    pattern: r#"^(https?://[^\s"'@]+)?$"#,
    description: "the address of a proxy without credentials",
    remedy: "write a plain address, such as http://proxy.example:3128",
};

/// A duration.
pub const DURATION: Spelling = Spelling {
    pattern: r"^([0-9]+(\.[0-9]+)?(h|m|s))+$",
    description: "a duration",
    remedy: "write hours and minutes, such as 30m",
};

/// An absolute path on Windows, or empty.
pub const WINDOWS_PATH: Spelling = Spelling {
    pattern: r#"^([A-Za-z]:[\\/][^<>:"|?*]*)?$"#,
    description: "an absolute Windows path",
    remedy: r"write drive and path, such as D:\containerd",
};

/// An IP address, or empty.
pub const IP_ADDRESS: Spelling = Spelling {
    pattern: r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)?$",
    description: "an IP address",
    remedy: "write an address such as 10.244.1.2",
};

/// A string without spaces and quotes, or empty.
pub const PLAIN: Spelling = Spelling {
    pattern: r#"^[^\s"']*$"#,
    description: "a string without spaces and quotes",
    remedy: "remove spaces and quotes",
};

/// Every pattern of the schema.
pub const ALL: [Spelling; 15] = [
    KEY,
    LABEL_VALUE,
    OBJECT_NAME,
    HANDLER,
    QUANTITY,
    THRESHOLD,
    REPOSITORY,
    TAG,
    REGISTRY,
    ENDPOINT,
    PROXY,
    DURATION,
    WINDOWS_PATH,
    IP_ADDRESS,
    PLAIN,
];
