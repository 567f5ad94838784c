//! The feature gates that a kubelet knows, by minor.
//!
//! A kubelet does not start with a gate that it does not know, nor with a locked gate set against its default. It
//! knows every gate of `pkg/features` in kubernetes/kubernetes and of the libraries it is linked with.
//!
//! Sources, read at the newest patch release of each minor that was at hand: `pkg/features/kube_features.go` of
//! kubernetes/kubernetes and the `pkg/features` of its libraries apiserver, apiextensions-apiserver, client-go and
//! component-base, for 1.21, 1.23 and 1.25 to 1.36 (1.36.3, 2026-08; in openshift/microshift's copy, 2026-08-21);
//! for 1.20 a `kubelet.exe` v1.20.2, asked gate by gate. First minors before a file that was read are from its
//! comments. 1.22 and 1.24 were not read: what the next minor no longer has counts as gone there, because a gate that
//! is left out does no harm and one too many stops the kubelet.

use super::Minor;

/// The newest minor whose gates were read; those of the first were read too.
pub const NEWEST_READ: Minor = Minor(36);
/// The oldest minor whose gates were read.
pub const OLDEST_READ: Minor = Minor(20);

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGate {
    /// The name, as `featureGates` has it.
    pub name: &'static str,
    /// The first minor that knows the gate; 1.14 stands for that and earlier.
    pub first: Minor,
    /// The last minor that knows it, if one read here no longer does.
    pub last: Option<Minor>,
    /// The minor from which on it is on by default.
    pub on: Option<Minor>,
    /// The minor from which on it can no longer be set against its default.
    pub locked: Option<Minor>,
}

impl FeatureGate {
    /// Whether a kubelet of a minor knows the gate.
    pub fn known_in(&self, minor: Minor) -> bool {
        self.first <= minor && self.last.is_none_or(|last| minor <= last)
    }

    /// Whether the gate is on by default in a minor that knows it.
    pub fn on_in(&self, minor: Minor) -> bool {
        self.on.is_some_and(|on| on <= minor)
    }

    /// The only value that a minor takes, where the gate is locked.
    pub fn locked_to(&self, minor: Minor) -> Option<bool> {
        self.locked.is_some_and(|locked| locked <= minor).then(|| self.on_in(minor))
    }
}

/// The gate of a name, if any minor read here knows it.
pub fn feature_gate(name: &str) -> Option<&'static FeatureGate> {
    GATES.binary_search_by(|gate| gate.name.cmp(name)).ok().map(|index| &GATES[index])
}

/// What becomes of a kubelet that is given a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the gate.
    Taken,
    /// Nothing is known: the minor is outside the range that was read, and no minor in it knows the gate.
    Unread,
    /// It does not know the gate and does not start.
    Unknown,
    /// It knows the gate with this value only and does not start with the other.
    Locked(bool),
}

/// What a kubelet of a minor does with a gate set to a value.
pub fn verdict(name: &str, value: bool, minor: Minor) -> Verdict {
    let read = (OLDEST_READ..=NEWEST_READ).contains(&minor);
    match feature_gate(name) {
        None if read => Verdict::Unknown,
        None => Verdict::Unread,
        Some(gate) if !gate.known_in(minor) => Verdict::Unknown,
        Some(gate) => match gate.locked_to(minor) {
            Some(only) if only != value => Verdict::Locked(only),
            _ => Verdict::Taken,
        },
    }
}

/// Still there in the newest minor that was read.
const NOW: u32 = 0;
/// Off by default so far.
const OFF: u32 = 0;
/// May still be set either way.
const FREE: u32 = 0;

const fn some(minor: u32) -> Option<Minor> {
    if minor == 0 { None } else { Some(Minor(minor)) }
}

const fn gate(name: &'static str, first: u32, last: u32, on: u32, locked: u32) -> FeatureGate {
    FeatureGate { name, first: Minor(first), last: some(last), on: some(on), locked: some(locked) }
}

/// Every gate: name, first minor, last minor, on by default from, locked from; in the order of the names' bytes.
#[rustfmt::skip]
pub const GATES: &[FeatureGate] = &[
    gate("APIListChunking", 14, 32, 14, 29),
    gate("APIPriorityAndFairness", 15, 30, 15, 29),
    gate("APIResponseCompression", 14, NOW, 14, FREE),
    gate("APISelfSubjectReview", 26, 29, 27, 28),
    gate("APIServerIdentity", 20, NOW, 26, FREE),
    gate("APIServerTracing", 22, NOW, 27, 34),
    gate("APIServingWithRoutine", 30, NOW, OFF, FREE),
    gate("AdmissionWebhookMatchConditions", 27, 32, 28, 30),
    gate("AdvancedAuditing", 14, 27, 14, 27),
    gate("AggregatedDiscoveryEndpoint", 26, 32, 27, 30),
    gate("AggregatedDiscoveryRemoveBetaType", 33, NOW, 33, 35),
    gate("AllAlpha", 14, NOW, OFF, FREE),
    gate("AllBeta", 14, NOW, OFF, FREE),
    gate("AllowDNSOnlyNodeCSR", 31, NOW, OFF, FREE),
    gate("AllowInsecureBackendProxy", 17, 21, 17, 21),
    gate("AllowInsecureKubeletCertificateSigningRequests", 31, NOW, OFF, FREE),
    gate("AllowOverwriteTerminationGracePeriodSeconds", 32, NOW, OFF, 35),
    gate("AllowParsingUserUIDFromCertAuth", 33, NOW, 33, FREE),
    gate("AllowServiceExternalIPs", 36, NOW, 36, FREE),
    gate("AllowServiceLBStatusOnNonLB", 29, 34, OFF, 32),
    gate("AllowUnsafeMalformedObjectDeletion", 32, NOW, OFF, FREE),
    gate("AnonymousAuthConfigurableEndpoints", 31, NOW, 32, 34),
    gate("AnyVolumeDataSource", 18, NOW, 25, 33),
    gate("AppArmor", 14, 32, 14, 31),
    gate("AppArmorFields", 30, 32, 30, 31),
    gate("AtomicFIFO", 36, NOW, 36, FREE),
    gate("AuthorizeNodeWithSelectors", 31, NOW, 32, 34),
    gate("AuthorizePodWebsocketUpgradeCreatePermission", 35, NOW, 35, FREE),
    gate("AuthorizeWithSelectors", 31, NOW, 32, 34),
    gate("BalanceAttachedNodeVolumes", 14, 21, OFF, FREE),
    gate("BoundServiceAccountTokenVolume", 14, 21, 21, FREE),
    gate("BtreeWatchCache", 32, NOW, 32, 33),
    gate("CBORServingAndStorage", 32, NOW, OFF, FREE),
    gate("CPUManager", 14, 32, 14, 26),
    gate("CPUManagerPolicyAlphaOptions", 23, NOW, OFF, FREE),
    gate("CPUManagerPolicyBetaOptions", 23, NOW, 23, FREE),
    gate("CPUManagerPolicyOptions", 22, NOW, 22, 33),
    gate("CRDObservedGenerationTracking", 35, NOW, 36, FREE),
    gate("CRDValidationRatcheting", 28, NOW, 30, 33),
    gate("CRIContainerLogRotation", 14, 21, 14, 21),
    gate("CRIListStreaming", 36, NOW, OFF, FREE),
    gate("CSIInlineVolume", 14, 26, 14, 25),
    gate("CSIMigration", 14, 26, 14, 25),
    gate("CSIMigrationAWS", 14, 26, 23, 25),
    gate("CSIMigrationAWSComplete", 14, 20, OFF, FREE),
    gate("CSIMigrationAzureDisk", 15, 26, 23, 25),
    gate("CSIMigrationAzureDiskComplete", 14, 20, OFF, FREE),
    gate("CSIMigrationAzureFile", 15, 29, 25, 27),
    gate("CSIMigrationAzureFileComplete", 14, 20, OFF, FREE),
    gate("CSIMigrationGCE", 14, 27, 23, 25),
    gate("CSIMigrationGCEComplete", 14, 20, OFF, FREE),
    gate("CSIMigrationOpenStack", 14, 25, 23, 25),
    gate("CSIMigrationOpenStackComplete", 14, 20, OFF, FREE),
    gate("CSIMigrationPortworx", 23, 35, 31, 33),
    gate("CSIMigrationRBD", 24, 30, OFF, FREE),
    gate("CSIMigrationvSphere", 19, 28, 25, 27),
    gate("CSIMigrationvSphereComplete", 19, 21, OFF, FREE),
    gate("CSINodeExpandSecret", 25, 30, 27, 29),
    gate("CSIServiceAccountToken", 20, 23, 21, 23),
    gate("CSIServiceAccountTokenSecrets", 35, NOW, 35, 36),
    gate("CSIStorageCapacity", 19, 27, 21, 25),
    gate("CSIVolumeFSGroupPolicy", 19, 23, 19, 23),
    gate("CSIVolumeHealth", 21, NOW, OFF, FREE),
    gate("CSRDuration", 22, 25, 22, 25),
    gate("ChangeContainerStatusOnKubeletRestart", 35, NOW, OFF, FREE),
    gate("ClearingNominatedNodeNameAfterBinding", 34, NOW, 35, FREE),
    gate("ClientsAllowCARotation", 36, NOW, 36, FREE),
    gate("ClientsAllowCBOR", 32, NOW, OFF, FREE),
    gate("ClientsAllowTLSCacheGC", 36, NOW, 36, FREE),
    gate("ClientsPreferCBOR", 32, NOW, OFF, FREE),
    gate("CloudControllerManagerWatchBasedRoutesReconciliation", 35, NOW, OFF, FREE),
    gate("CloudControllerManagerWebhook", 27, NOW, OFF, FREE),
    gate("CloudDualStackNodeIPs", 27, 31, 29, 30),
    gate("ClusterTrustBundle", 27, NOW, OFF, FREE),
    gate("ClusterTrustBundleProjection", 29, NOW, OFF, FREE),
    gate("ComponentFlagz", 32, NOW, 36, FREE),
    gate("ComponentSLIs", 26, 31, 27, FREE),
    gate("ComponentStatusz", 32, NOW, 36, FREE),
    gate("ConcurrentWatchObjectDecode", 31, NOW, OFF, FREE),
    gate("ConfigurableFSGroupPolicy", 18, 23, 18, 23),
    gate("ConsistentHTTPGetHandlers", 26, 30, 26, 30),
    gate("ConsistentListFromCache", 28, NOW, 31, 34),
    gate("ConstrainedImpersonation", 35, NOW, 36, FREE),
    gate("ContainerCheckpoint", 25, NOW, 30, FREE),
    gate("ContainerRestartRules", 34, NOW, 35, FREE),
    gate("ContainerStopSignals", 33, NOW, OFF, FREE),
    gate("ContextualLogging", 24, 32, 30, FREE),
    gate("ControllerManagerLeaderMigration", 22, 26, 22, 25),
    gate("CoordinatedLeaderElection", 31, NOW, OFF, FREE),
    gate("CronJobControllerV2", 20, 21, 21, FREE),
    gate("CronJobTimeZone", 24, 28, 24, 27),
    gate("CronJobsScheduledAnnotation", 28, 34, 28, 32),
    gate("CrossNamespaceVolumeDataSource", 26, NOW, OFF, FREE),
    gate("CustomCPUCFSQuotaPeriod", 14, NOW, 36, FREE),
    gate("CustomResourceFieldSelectors", 30, NOW, 31, 32),
    gate("CustomResourceValidationExpressions", 23, 30, 25, 29),
    gate("DRAAdminAccess", 32, NOW, 34, 36),
    gate("DRAConsumableCapacity", 34, NOW, 36, FREE),
    gate("DRAControlPlaneController", 31, 31, OFF, FREE),
    gate("DRADeviceBindingConditions", 34, NOW, 36, FREE),
    gate("DRADeviceTaintRules", 35, NOW, OFF, FREE),
    gate("DRADeviceTaints", 33, NOW, 36, FREE),
    gate("DRAExtendedResource", 34, NOW, 36, FREE),
    gate("DRAListTypeAttributes", 36, NOW, OFF, FREE),
    gate("DRANodeAllocatableResources", 36, NOW, OFF, FREE),
    gate("DRAPartitionableDevices", 33, NOW, 36, FREE),
    gate("DRAPrioritizedList", 33, NOW, 34, FREE),
    gate("DRAResourceClaimDeviceStatus", 32, NOW, 33, FREE),
    gate("DRAResourceClaimGranularStatusAuthorization", 36, NOW, 36, FREE),
    gate("DRAResourcePoolStatus", 36, NOW, OFF, FREE),
    gate("DRASchedulerFilterTimeout", 34, NOW, 34, FREE),
    gate("DRAWorkloadResourceClaims", 36, NOW, OFF, FREE),
    gate("DaemonSetUpdateSurge", 21, 26, 23, 25),
    gate("DeclarativeValidation", 33, NOW, 33, 36),
    gate("DeclarativeValidationBeta", 36, NOW, 36, FREE),
    gate("DeclarativeValidationTakeover", 33, NOW, OFF, FREE),
    gate("DefaultHostNetworkHostPortsInPodTemplates", 28, 30, OFF, FREE),
    gate("DefaultPodTopologySpread", 20, 25, 20, 25),
    gate("DelegateFSGroupToCSIDriver", 22, 27, 22, 26),
    gate("DeploymentReplicaSetTerminatingReplicas", 33, NOW, 35, FREE),
    gate("DetectCacheInconsistency", 34, NOW, 34, FREE),
    gate("DevicePluginCDIDevices", 28, 33, 29, 31),
    gate("DevicePlugins", 14, 27, 14, 26),
    gate("DisableAcceleratorUsageMetrics", 19, 27, 19, 25),
    gate("DisableAllocatorDualWrite", 31, NOW, 34, 35),
    gate("DisableCPUQuotaWithExclusiveCPUs", 33, NOW, 33, FREE),
    gate("DisableCloudProviders", 22, 32, 29, 31),
    gate("DisableKubeletCloudCredentialProviders", 23, 32, 29, 31),
    gate("DisableNodeKubeProxyVersion", 29, NOW, 33, 36),
    gate("DownwardAPIHugePages", 20, 28, 23, 27),
    gate("DryRun", 14, 27, 14, 26),
    gate("DynamicKubeletConfig", 14, 25, OFF, FREE),
    gate("DynamicResourceAllocation", 26, NOW, 34, 35),
    gate("EfficientWatchResumption", 20, 32, 21, 25),
    gate("ElasticIndexedJob", 27, 33, 27, 31),
    gate("EndpointSlice", 16, 23, 16, 21),
    gate("EndpointSliceNodeName", 20, 23, 21, 21),
    gate("EndpointSliceProxying", 18, 23, 18, 23),
    gate("EndpointSliceTerminatingCondition", 20, 27, 23, 26),
    gate("EnvFiles", 34, NOW, 35, FREE),
    gate("EphemeralContainers", 16, 26, 23, 25),
    gate("EventedPLEG", 26, NOW, OFF, FREE),
    gate("ExecProbeTimeout", 20, NOW, 20, 35),
    gate("ExpandCSIVolumes", 14, 26, 14, FREE),
    gate("ExpandInUsePersistentVolumes", 15, 26, 15, FREE),
    gate("ExpandPersistentVolumes", 14, 26, 14, FREE),
    gate("ExpandedDNSConfig", 22, 29, 26, 28),
    gate("ExperimentalHostUserNamespaceDefaulting", 14, 29, OFF, 28),
    gate("ExtendWebSocketsToKubelet", 36, NOW, 36, FREE),
    gate("ExternalPolicyForExternalIP", 18, 21, 18, 20),
    gate("ExternalServiceAccountTokenSigner", 32, NOW, 34, 36),
    gate("GRPCContainerProbe", 23, 28, 25, 27),
    gate("GangScheduling", 35, NOW, OFF, FREE),
    gate("GenericEphemeralVolume", 19, 23, 21, 23),
    gate("GenericWorkload", 35, NOW, OFF, FREE),
    gate("GitRepoVolumeDriver", 33, NOW, OFF, 36),
    gate("GracefulNodeShutdown", 20, NOW, 21, FREE),
    gate("GracefulNodeShutdownBasedOnPodPriority", 23, NOW, 25, FREE),
    gate("HPAConfigurableTolerance", 33, NOW, 35, FREE),
    gate("HPAContainerMetrics", 20, 31, 27, 30),
    gate("HPAScaleToZero", 16, NOW, OFF, FREE),
    gate("HonorPVReclaimPolicy", 23, 35, 31, 33),
    gate("HostnameOverride", 34, NOW, 35, FREE),
    gate("HugePageStorageMediumSize", 18, 23, 18, 23),
    gate("IPTablesOwnershipCleanup", 25, 29, 27, 28),
    gate("IPv6DualStack", 15, 23, 21, 23),
    gate("IdentifyPodOS", 23, 26, 25, 25),
    gate("ImageMaximumGCAge", 29, NOW, 30, 35),
    gate("ImageVolume", 31, NOW, 35, 36),
    gate("ImageVolumeWithDigest", 36, NOW, OFF, FREE),
    gate("ImmutableEphemeralVolumes", 18, 23, 18, 21),
    gate("InOrderInformers", 33, NOW, 33, 36),
    gate("InOrderInformersBatchProcess", 35, NOW, 35, FREE),
    gate("InPlacePodLevelResourcesVerticalScaling", 35, NOW, 36, FREE),
    gate("InPlacePodVerticalScaling", 27, NOW, 33, 35),
    gate("InPlacePodVerticalScalingAllocatedStatus", 32, 35, OFF, FREE),
    gate("InPlacePodVerticalScalingExclusiveCPUs", 32, NOW, OFF, FREE),
    gate("InPlacePodVerticalScalingExclusiveMemory", 34, NOW, OFF, FREE),
    gate("InPlacePodVerticalScalingInitContainers", 36, NOW, 36, FREE),
    gate("InTreePluginAWSUnregister", 21, 30, OFF, FREE),
    gate("InTreePluginAzureDiskUnregister", 21, 30, OFF, FREE),
    gate("InTreePluginAzureFileUnregister", 21, 30, OFF, FREE),
    gate("InTreePluginGCEUnregister", 21, 30, OFF, FREE),
    gate("InTreePluginOpenStackUnregister", 21, 30, OFF, FREE),
    gate("InTreePluginPortworxUnregister", 23, 35, OFF, FREE),
    gate("InTreePluginRBDUnregister", 23, 30, OFF, FREE),
    gate("InTreePluginvSphereUnregister", 21, 30, OFF, FREE),
    gate("IndexedJob", 21, 25, 23, 25),
    gate("InformerResourceVersion", 30, NOW, 35, FREE),
    gate("IngressClassNamespacedParams", 21, 23, 23, 23),
    gate("JobBackoffLimitPerIndex", 28, NOW, 29, 33),
    gate("JobManagedBy", 30, NOW, 32, 35),
    gate("JobMutableNodeSchedulingDirectives", 23, 28, 23, 27),
    gate("JobPodFailurePolicy", 25, 32, 26, 31),
    gate("JobPodReplacementPolicy", 28, NOW, 29, 34),
    gate("JobReadyPods", 23, 30, 25, 29),
    gate("JobSuccessPolicy", 30, NOW, 31, 33),
    gate("JobTrackingWithFinalizers", 22, 28, 25, 26),
    gate("KMSv1", 28, NOW, OFF, FREE),
    gate("KMSv2", 25, 31, 27, 29),
    gate("KMSv2KDF", 28, 31, 29, 29),
    gate("KubeProxyDrainingTerminatingNodes", 28, 32, 30, 31),
    gate("KubeletCgroupDriverFromCRI", 28, NOW, 31, 34),
    gate("KubeletCrashLoopBackOffMax", 32, NOW, 35, FREE),
    gate("KubeletCredentialProviders", 20, 27, 25, 26),
    gate("KubeletEnsureSecretPulledImages", 33, NOW, 35, FREE),
    gate("KubeletFineGrainedAuthz", 32, NOW, 33, 36),
    gate("KubeletInUserNamespace", 22, NOW, OFF, FREE),
    gate("KubeletPSI", 33, NOW, 34, 36),
    gate("KubeletPodResources", 14, 29, 14, 28),
    gate("KubeletPodResourcesDynamicResources", 27, NOW, 34, 36),
    gate("KubeletPodResourcesGet", 27, NOW, 34, 36),
    gate("KubeletPodResourcesGetAllocatable", 21, 28, 23, 28),
    gate("KubeletPodResourcesListUseActivePods", 34, NOW, 34, FREE),
    gate("KubeletRegistrationGetOnExistsOnly", 32, NOW, OFF, FREE),
    gate("KubeletSeparateDiskGC", 29, NOW, 31, FREE),
    gate("KubeletServiceAccountTokenForCredentialProviders", 33, NOW, 34, FREE),
    gate("KubeletTracing", 25, NOW, 27, 34),
    gate("LegacyNodeRoleBehavior", 16, 21, OFF, 21),
    gate("LegacyServiceAccountTokenCleanUp", 28, 31, 29, 30),
    gate("LegacyServiceAccountTokenNoAutoGeneration", 24, 28, 24, 27),
    gate("LegacyServiceAccountTokenTracking", 26, 29, 27, 28),
    gate("LegacySidecarContainers", 33, 33, OFF, FREE),
    gate("ListFromCacheSnapshot", 33, NOW, 34, FREE),
    gate("LoadBalancerIPMode", 29, 34, 30, 32),
    gate("LocalStorageCapacityIsolation", 14, 26, 14, 25),
    gate("LocalStorageCapacityIsolationFSQuotaMonitoring", 15, NOW, OFF, FREE),
    gate("LogarithmicScaleDown", 21, NOW, 23, 31),
    gate("LoggingAlphaOptions", 25, 32, OFF, FREE),
    gate("LoggingBetaOptions", 25, 32, 25, FREE),
    gate("ManifestBasedAdmissionControlConfig", 36, NOW, OFF, FREE),
    gate("MatchLabelKeysInPodAffinity", 29, NOW, 31, 33),
    gate("MatchLabelKeysInPodTopologySpread", 25, NOW, 27, FREE),
    gate("MatchLabelKeysInPodTopologySpreadSelectorMerge", 34, NOW, 34, FREE),
    gate("MaxUnavailableStatefulSet", 24, NOW, OFF, FREE),
    gate("MemoryManager", 21, 35, 23, 32),
    gate("MemoryQoS", 22, NOW, OFF, FREE),
    gate("MinDomainsInPodTopologySpread", 24, 31, 27, 30),
    gate("MinimizeIPTablesRestore", 26, 29, 27, 28),
    gate("MixedProtocolLBService", 20, 27, 25, 26),
    gate("MultiCIDRRangeAllocator", 25, 28, OFF, FREE),
    gate("MultiCIDRServiceAllocator", 27, NOW, 33, 34),
    gate("MutableCSINodeAllocatableCount", 33, NOW, 35, 36),
    gate("MutablePVNodeAffinity", 35, NOW, OFF, FREE),
    gate("MutablePodResourcesForSuspendedJobs", 35, NOW, 36, FREE),
    gate("MutableSchedulingDirectivesForSuspendedJobs", 35, NOW, 36, FREE),
    gate("MutatingAdmissionPolicy", 30, NOW, 36, FREE),
    gate("NFTablesProxyMode", 29, NOW, 31, 33),
    gate("NamespaceDefaultLabelName", 21, 23, 21, 23),
    gate("NetworkPolicyEndPort", 21, 26, 23, 25),
    gate("NetworkPolicyStatus", 24, 27, OFF, FREE),
    gate("NewVolumeManagerReconstruction", 27, 31, 28, 30),
    gate("NodeDeclaredFeatures", 35, NOW, 36, FREE),
    gate("NodeDisruptionExclusion", 16, 21, 16, 21),
    gate("NodeInclusionPolicyInPodTopologySpread", 25, NOW, 26, 33),
    gate("NodeLease", 14, 21, 14, 20),
    gate("NodeLogQuery", 27, NOW, 27, 36),
    gate("NodeOutOfServiceVolumeDetach", 24, 31, 26, 28),
    gate("NodeSwap", 22, NOW, 30, 34),
    gate("NominatedNodeNameForExpectation", 34, NOW, 35, FREE),
    gate("NonPreemptingPriority", 15, 25, 15, 25),
    gate("OpenAPIEnums", 23, NOW, 25, FREE),
    gate("OpenAPIV3", 23, 28, 25, 27),
    gate("OpportunisticBatching", 35, NOW, 35, FREE),
    gate("OrderedNamespaceDeletion", 30, NOW, 33, 34),
    gate("PDBUnhealthyPodEvictionPolicy", 26, 32, 27, 31),
    gate("PLEGOnDemandRelist", 36, NOW, 36, FREE),
    gate("PersistentVolumeClaimUnusedSinceTime", 36, NOW, OFF, FREE),
    gate("PersistentVolumeLastPhaseTransitionTime", 28, 32, 29, 31),
    gate("PodAffinityNamespaceSelector", 21, 25, 23, 25),
    gate("PodAndContainerStatsFromCRI", 23, NOW, OFF, FREE),
    gate("PodCertificateRequest", 34, NOW, OFF, FREE),
    gate("PodDeletionCost", 21, NOW, 23, FREE),
    gate("PodDisruptionBudget", 14, 23, 14, 21),
    gate("PodDisruptionConditions", 25, 33, 26, 31),
    gate("PodHasNetworkCondition", 25, 27, OFF, FREE),
    gate("PodHostIPs", 28, 31, 29, 30),
    gate("PodIndexLabel", 28, 34, 28, 32),
    gate("PodLevelResourceManagers", 36, NOW, OFF, FREE),
    gate("PodLevelResources", 32, NOW, 34, FREE),
    gate("PodLifecycleSleepAction", 29, NOW, 30, 34),
    gate("PodLifecycleSleepActionAllowZero", 32, NOW, 33, 34),
    gate("PodLogsQuerySplitStreams", 32, NOW, OFF, FREE),
    gate("PodObservedGenerationTracking", 33, NOW, 34, 35),
    gate("PodOverhead", 16, 25, 16, 25),
    gate("PodReadyToStartContainersCondition", 28, NOW, 29, FREE),
    gate("PodSchedulingReadiness", 26, NOW, 27, 30),
    gate("PodSecurity", 22, 27, 22, 25),
    gate("PodTopologyLabelsAdmission", 33, NOW, 35, FREE),
    gate("PodsAPI", 36, NOW, OFF, FREE),
    gate("PortForwardWebsockets", 30, NOW, 31, FREE),
    gate("PreferNominatedNode", 21, 25, 23, 25),
    gate("PreferSameTrafficDistribution", 33, NOW, 34, 35),
    gate("PreventStaticPodAPIReferences", 34, NOW, 34, FREE),
    gate("ProbeHostPodSecurityStandards", 34, 34, 34, 34),
    gate("ProbeTerminationGracePeriod", 21, 28, 25, 28),
    gate("ProcMountType", 14, NOW, 33, 36),
    gate("ProxyTerminatingEndpoints", 22, 29, 26, 28),
    gate("QOSReserved", 14, NOW, OFF, FREE),
    gate("ReadWriteOncePod", 22, 30, 27, 29),
    gate("RecoverVolumeExpansionFailure", 23, NOW, 32, 34),
    gate("RecursiveReadOnlyMounts", 30, NOW, 31, 33),
    gate("ReduceDefaultCrashLoopBackOffDecay", 33, NOW, OFF, FREE),
    gate("RelaxedDNSSearchValidation", 32, NOW, 33, 34),
    gate("RelaxedEnvironmentVariableValidation", 30, NOW, 32, 34),
    gate("RelaxedServiceNameValidation", 34, NOW, 36, FREE),
    gate("ReloadKubeletClientCAFile", 36, NOW, 36, FREE),
    gate("ReloadKubeletServerCertificateFile", 31, NOW, 31, FREE),
    gate("RemainingItemCount", 15, 32, 15, 29),
    gate("RemoteRequestHeaderUID", 32, NOW, 33, FREE),
    gate("RemoveSelfLink", 16, 29, 16, 25),
    gate("ResilientWatchCacheInitialization", 31, NOW, 32, 34),
    gate("ResourceHealthStatus", 31, NOW, 36, FREE),
    gate("ResourceHealthStatusMessage", 36, NOW, 36, FREE),
    gate("RestartAllContainersOnContainerExits", 35, NOW, 36, FREE),
    gate("RetroactiveDefaultStorageClass", 25, 28, 26, FREE),
    gate("RetryGenerateName", 30, NOW, 31, 32),
    gate("RootCAConfigMap", 14, 21, 14, 21),
    gate("RotateKubeletServerCertificate", 14, NOW, 14, FREE),
    gate("RunAsGroup", 14, 21, 14, 21),
    gate("RuntimeClass", 14, 23, 14, 20),
    gate("RuntimeClassInImageCriApi", 29, NOW, OFF, FREE),
    gate("SCTPSupport", 14, 21, 14, 20),
    gate("SELinuxChangePolicy", 32, NOW, 33, 36),
    gate("SELinuxMount", 30, NOW, OFF, FREE),
    gate("SELinuxMountReadWriteOncePod", 25, NOW, 28, 36),
    gate("SchedulerAsyncAPICalls", 34, NOW, OFF, FREE),
    gate("SchedulerAsyncPreemption", 32, NOW, 33, FREE),
    gate("SchedulerPopFromBackoffQ", 33, NOW, 33, FREE),
    gate("SchedulerQueueingHints", 28, NOW, 32, 34),
    gate("SeccompDefault", 22, 28, 25, 27),
    gate("SecurityContextDeny", 27, 29, OFF, FREE),
    gate("SelectorIndex", 18, 23, 18, 20),
    gate("SeparateCacheWatchRPC", 28, NOW, OFF, 36),
    gate("SeparateTaintEvictionController", 29, NOW, 29, 34),
    gate("ServerSideApply", 14, 31, 14, 26),
    gate("ServerSideFieldValidation", 23, 31, 25, 27),
    gate("ServiceAccountIssuerDiscovery", 18, 21, 18, 21),
    gate("ServiceAccountNodeAudienceRestriction", 32, NOW, 33, FREE),
    gate("ServiceAccountTokenJTI", 29, NOW, 30, 32),
    gate("ServiceAccountTokenNodeBinding", 29, NOW, 31, 33),
    gate("ServiceAccountTokenNodeBindingValidation", 29, NOW, 30, 32),
    gate("ServiceAccountTokenPodNodeInfo", 29, NOW, 30, 32),
    gate("ServiceAppProtocol", 18, 21, 18, 20),
    gate("ServiceCIDRStatusFieldWiping", 36, NOW, 36, FREE),
    gate("ServiceIPStaticSubrange", 24, 27, 24, 26),
    gate("ServiceInternalTrafficPolicy", 21, 27, 23, 26),
    gate("ServiceLBNodePortControl", 20, 25, 23, 25),
    gate("ServiceLoadBalancerClass", 21, 25, 23, 25),
    gate("ServiceNodeExclusion", 14, 21, 14, 21),
    gate("ServiceNodePortStaticSubrange", 27, 30, 28, 29),
    gate("ServiceTopology", 17, 21, OFF, FREE),
    gate("ServiceTrafficDistribution", 30, 35, 31, 33),
    gate("SetHostnameAsFQDN", 19, 23, 19, 23),
    gate("ShardedListAndWatch", 36, NOW, OFF, FREE),
    gate("SidecarContainers", 28, NOW, 29, 33),
    gate("SizeBasedListCostEstimate", 34, NOW, 34, FREE),
    gate("SizeMemoryBackedVolumes", 20, 34, 23, 32),
    gate("SkipReadOnlyValidationGCE", 28, 30, 29, FREE),
    gate("StableLoadBalancerNodeSet", 27, 31, 27, 30),
    gate("StaleControllerConsistencyDaemonSet", 36, NOW, 36, FREE),
    gate("StaleControllerConsistencyJob", 36, NOW, 36, FREE),
    gate("StaleControllerConsistencyReplicaSet", 36, NOW, 36, FREE),
    gate("StaleControllerConsistencyStatefulSet", 36, NOW, 36, FREE),
    gate("StartupProbe", 16, 21, 16, 20),
    gate("StatefulSetAutoDeletePVC", 22, 34, 27, 32),
    gate("StatefulSetMinReadySeconds", 22, 26, 22, 25),
    gate("StatefulSetSemanticRevisionComparison", 34, NOW, 34, FREE),
    gate("StatefulSetStartOrdinal", 26, 33, 27, 31),
    gate("StorageCapacityScoring", 33, NOW, OFF, FREE),
    gate("StorageNamespaceIndex", 30, NOW, 30, FREE),
    gate("StorageObjectInUseProtection", 14, 23, 14, 23),
    gate("StorageVersionAPI", 20, NOW, OFF, FREE),
    gate("StorageVersionHash", 14, NOW, 14, FREE),
    gate("StorageVersionMigrator", 30, NOW, OFF, FREE),
    gate("StreamingCollectionEncodingToJSON", 29, NOW, 33, 34),
    gate("StreamingCollectionEncodingToProtobuf", 29, NOW, 33, 34),
    gate("StreamingProxyRedirects", 14, 23, OFF, FREE),
    gate("StrictCostEnforcementForVAP", 30, 34, 32, 32),
    gate("StrictCostEnforcementForWebhooks", 30, 34, 32, 32),
    gate("StrictIPCIDRValidation", 33, NOW, 36, FREE),
    gate("StructuredAuthenticationConfiguration", 28, NOW, 30, 34),
    gate("StructuredAuthenticationConfigurationEgressSelector", 34, NOW, 34, FREE),
    gate("StructuredAuthenticationConfigurationJWKSMetrics", 35, NOW, 35, FREE),
    gate("StructuredAuthorizationConfiguration", 29, 35, 30, 32),
    gate("SupplementalGroupsPolicy", 31, NOW, 33, 35),
    gate("SupportNodePidsLimit", 15, 21, 15, 20),
    gate("SupportPodPidsLimit", 14, 21, 14, 20),
    gate("SuspendJob", 21, 25, 23, 25),
    gate("Sysctls", 14, 21, 14, 21),
    gate("SystemdWatchdog", 32, NOW, 32, 35),
    gate("TTLAfterFinished", 14, 23, 21, 23),
    gate("TaintTolerationComparisonOperators", 35, NOW, OFF, FREE),
    gate("TokenRequestServiceAccountUIDValidation", 34, NOW, 34, FREE),
    gate("TopologyAwareHints", 21, 35, 25, 33),
    gate("TopologyAwareWorkloadScheduling", 36, NOW, OFF, FREE),
    gate("TopologyManager", 16, 28, 16, 27),
    gate("TopologyManagerPolicyAlphaOptions", 26, NOW, OFF, FREE),
    gate("TopologyManagerPolicyBetaOptions", 26, NOW, 28, FREE),
    gate("TopologyManagerPolicyOptions", 26, NOW, 28, 36),
    gate("TranslateStreamCloseWebsocketRequests", 29, NOW, 30, FREE),
    gate("UnauthenticatedHTTP2DOSMitigation", 26, NOW, 26, FREE),
    gate("UnknownVersionInteroperabilityProxy", 28, NOW, 36, FREE),
    gate("UnlockWhileProcessingFIFO", 36, NOW, 36, FREE),
    gate("UserNamespacesHostNetworkSupport", 35, NOW, OFF, FREE),
    gate("UserNamespacesPodSecurityStandards", 29, 34, OFF, FREE),
    gate("UserNamespacesStatelessPodsSupport", 25, 27, OFF, FREE),
    gate("UserNamespacesSupport", 28, NOW, 33, 36),
    gate("ValidateProxyRedirects", 14, 23, 14, FREE),
    gate("ValidatingAdmissionPolicy", 26, 31, 30, 30),
    gate("VolumeAttributesClass", 29, NOW, 34, 36),
    gate("VolumeCapacityPriority", 21, 32, OFF, FREE),
    gate("VolumeLimitScaling", 35, NOW, OFF, FREE),
    gate("VolumeSnapshotDataSource", 14, 21, 14, 20),
    gate("VolumeSubpath", 14, 23, 14, 23),
    gate("WarningHeaders", 19, 23, 19, 23),
    gate("WatchBookmark", 15, 32, 15, 20),
    gate("WatchCacheInitializationPostStartHook", 31, NOW, 36, FREE),
    gate("WatchFromStorageWithoutResourceVersion", 27, 35, OFF, 33),
    gate("WatchList", 27, NOW, 34, FREE),
    gate("WatchListClient", 30, NOW, 35, FREE),
    gate("WinDSR", 14, NOW, 33, 34),
    gate("WinOverlay", 14, NOW, 14, 34),
    gate("WindowsCPUAndMemoryAffinity", 32, NOW, OFF, FREE),
    gate("WindowsEndpointSliceProxying", 19, 23, 21, 23),
    gate("WindowsGracefulNodeShutdown", 32, NOW, 34, FREE),
    gate("WindowsHostNetwork", 26, NOW, OFF, FREE),
    gate("WindowsHostProcessContainers", 22, 27, 22, 26),
    gate("WorkloadAwarePreemption", 36, NOW, OFF, FREE),
    gate("WorkloadWithJob", 36, NOW, OFF, FREE),
    gate("ZeroLimitedNominalConcurrencyShares", 29, 31, 30, 30),
    gate("csiMigrationRBD", 23, 23, OFF, FREE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_is_found_by_its_name_and_its_minors_are_in_order() {
        for pair in GATES.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
        for gate in GATES {
            assert_eq!(feature_gate(gate.name), Some(gate));
            let last = gate.last.unwrap_or(NEWEST_READ);
            assert!(gate.first <= last, "{}", gate.name);
            assert!(gate.on.is_none_or(|on| gate.first <= on && on <= last), "{}", gate.name);
            assert!(gate.locked.is_none_or(|locked| gate.first <= locked && locked <= last), "{}", gate.name);
        }
    }

    #[test]
    fn a_kubelet_takes_the_gates_of_its_minor_and_no_other() {
        let table = [
            ("GracefulNodeShutdown", true, 20, Verdict::Taken),
            ("GracefulNodeShutdown", true, 19, Verdict::Unknown),
            ("WindowsHostProcessContainers", true, 21, Verdict::Unknown),
            ("WindowsHostProcessContainers", true, 22, Verdict::Taken),
            ("WindowsHostProcessContainers", false, 26, Verdict::Locked(true)),
            ("WindowsHostProcessContainers", true, 28, Verdict::Unknown),
            ("WindowsGracefulNodeShutdown", true, 31, Verdict::Unknown),
            ("WindowsGracefulNodeShutdown", false, 34, Verdict::Taken),
            ("WindowsCPUAndMemoryAffinity", true, 36, Verdict::Taken),
            ("WindowsCPUAndMemoryAffinity", true, 38, Verdict::Taken),
            ("GitRepoVolumeDriver", true, 36, Verdict::Locked(false)),
            ("AllAlpha", false, 14, Verdict::Taken),
            ("NoSuchGate", true, 20, Verdict::Unknown),
            ("NoSuchGate", true, 36, Verdict::Unknown),
            ("NoSuchGate", true, 37, Verdict::Unread),
            ("NoSuchGate", true, 19, Verdict::Unread),
        ];
        for (name, value, minor, expected) in table {
            assert_eq!(verdict(name, value, Minor(minor)), expected, "{name}={value} in 1.{minor}");
        }
    }

    #[test]
    fn every_gate_at_its_default_is_taken_by_every_minor_that_knows_it() {
        for gate in GATES {
            for minor in (14..=40).map(Minor) {
                let taken = verdict(gate.name, gate.on_in(minor), minor) == Verdict::Taken;
                assert_eq!(taken, gate.known_in(minor), "{} in {minor}", gate.name);
            }
        }
    }
}
