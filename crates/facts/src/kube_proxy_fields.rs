//! The fields of KubeProxyConfiguration that winpool writes on Windows. All others are refused: `clientConnection` names the
//! credentials, `bindAddress`, `healthzBindAddress` and `metricsBindAddress` are endpoints.
//!
//! Source: kubernetes/kube-proxy, `config/v1alpha1/types.go` (1.14 to v0.37.0-beta.0). The flags of `cmd/kube-proxy/app/options.go` are the
//! same from 1.31 on to v1.38.0-beta.0, and 1.30 has `proxy-port-range` too. kube-proxy has the feature gates of the kubelet, and does not start
//! with an unknown one (`server.go` there, and `SetFromMap` of kubernetes/component-base; read 2026-11-29).

use super::kubelet_fields::FieldType;

pub const FIELDS: &[(&str, FieldType)] = &[
    ("mode", FieldType::Enum(&["kernelspace"])),
    ("featureGates", FieldType::BoolMap),
    (
        "winkernel",
        FieldType::Object(&[
            ("networkName", FieldType::String),
            ("sourceVip", FieldType::String),
            ("enableDSR", FieldType::Bool),
            ("rootHnsEndpointName", FieldType::String),
            ("forwardHealthCheckVip", FieldType::Bool),
        ]),
    ),
];
