//! Gates of other Kubernetes components, and the dependencies between the gates of all components.
//!
//! kube-scheduler accepts every gate of the Kubernetes tree, because the same `--feature-gates` value is often passed
//! to all components. Harbormaster accepts them too, but uses only the gates of [`harbormaster_api::features`].

/// Gates of other components, each with its history as in [`GateHistory`](harbormaster_api::features::GateHistory).
pub(crate) const FOREIGN_GATES: &str = "\
    APIResponseCompression: 33 Beta on
    APIServerIdentity: 33 Beta on
    APIServerTracing: 33 Beta on, 34 Ga on locked, 37 removed
    APIServerWebhookAuthenticationToken: 37 Alpha off
    APIServingWithRoutine: 33 Alpha off
    AggregatedDiscoveryRemoveBetaType: 33 Deprecated on, 35 Deprecated on locked
    AllowDNSOnlyNodeCSR: 33 Deprecated off
    AllowInsecureKubeletCertificateSigningRequests: 33 Deprecated off
    AllowOverwriteTerminationGracePeriodSeconds: 33 Deprecated off, 35 Deprecated off locked
    AllowParsingUserUIDFromCertAuth: 33 Beta on
    AllowServiceExternalIPs: 33 Ga on
    AllowUnsafeMalformedObjectDeletion: 33 Alpha off, 37 Beta on
    AnonymousAuthConfigurableEndpoints: 33 Beta on, 34 Ga on locked, 37 removed
    AnyVolumeDataSource: 33 Ga on locked, 37 removed
    AtomicFIFO: 36 Beta on
    AtomicWriteVolumeUserFields: 37 Alpha off
    AuthorizeNodeWithSelectors: 33 Beta on, 34 Ga on locked, 37 removed
    AuthorizePodWebsocketUpgradeCreatePermission: 35 Beta on
    AuthorizeWithSelectors: 33 Beta on, 34 Ga on locked, 37 removed
    BtreeWatchCache: 33 Ga on locked, 37 removed
    CBORServingAndStorage: 33 Alpha off
    CPUManagerPolicyAlphaOptions: 33 Alpha off
    CPUManagerPolicyBetaOptions: 33 Beta on
    CPUManagerPolicyOptions: 33 Ga on locked
    CRDObservedGenerationTracking: 35 Beta off, 36 Beta on
    CRDValidationRatcheting: 33 Ga on locked
    CRIListStreaming: 36 Alpha off
    CSIServiceAccountTokenSecrets: 35 Beta on, 36 Ga on locked
    CSIVolumeHealth: 33 Alpha off
    ChangeContainerStatusOnKubeletRestart: 33 Ga on, 35 Deprecated off
    ClientsAllowCARotation: 36 Beta on
    ClientsAllowCBOR: 33 Alpha off
    ClientsAllowTLSCacheGC: 36 Beta on
    ClientsPreferCBOR: 33 Alpha off
    CloudControllerManagerWatchBasedRoutesReconciliation: 35 Alpha off
    CloudControllerManagerWebhook: 33 Alpha off
    ClusterTrustBundle: 33 Beta off, 37 Ga on
    ClusterTrustBundleProjection: 33 Beta off, 37 Ga on
    ConcurrentWatchObjectDecode: 33 Beta off, 37 Beta on
    ConsistentListFromCache: 33 Beta on, 34 Ga on locked, 37 removed
    ConsistentListFromCacheSkipTimeoutFallback: 37 Alpha off
    ConstrainedImpersonation: 35 Alpha off, 36 Beta on
    ContainerCheckpoint: 33 Beta on
    ContainerRestartRules: 34 Alpha off, 35 Beta on
    ContainerStopSignals: 33 Alpha off
    CrossNamespaceVolumeDataSource: 33 Alpha off
    CustomCPUCFSQuotaPeriod: 33 Alpha off, 36 Ga on
    CustomResourceFieldSelectors: 33 Ga on locked
    DRAResourcePoolStatus: 36 Alpha off
    DeclarativeValidation: 33 Beta on, 36 Ga on locked
    DeclarativeValidationBeta: 36 Beta on
    DeclarativeValidationTakeover: 33 Beta off, 36 Deprecated off, 37 Deprecated off locked
    DefaultPodSysctls: 37 Alpha off
    DeploymentReplicaSetTerminatingReplicas: 33 Alpha off, 35 Beta on
    DetectCacheInconsistency: 34 Beta on
    DisableAllocatorDualWrite: 33 Beta off, 34 Ga on, 35 Ga on locked
    DisableCPUQuotaWithExclusiveCPUs: 33 Beta on, 36 Deprecated on, 37 Deprecated on locked
    DisableNodeKubeProxyVersion: 33 Deprecated on, 36 Deprecated on locked
    EmptyDirVolumeMode: 37 Alpha off
    EnvFiles: 34 Alpha off, 35 Beta on
    EtcdRangeStream: 37 Beta on
    EventedPLEG: 33 Alpha off
    EvictionRequestAPI: 37 Alpha off
    ExcludeAdmissionWebhookVirtualResources: 37 Beta on
    ExecProbeTimeout: 33 Ga on, 35 Ga on locked
    ExtendWebSocketsToKubelet: 36 Beta on
    ExternalServiceAccountTokenSigner: 33 Alpha off, 34 Beta on, 36 Ga on locked
    GRPCContainerProbeTLS: 37 Alpha off
    GitRepoVolumeDriver: 33 Deprecated off, 36 Deprecated off locked
    GracefulNodeShutdown: 33 Beta on
    GracefulNodeShutdownBasedOnPodPriority: 33 Beta on
    H2CContainerProbe: 37 Alpha off
    HPAConfigurableTolerance: 33 Alpha off, 35 Beta on, 37 Ga on locked
    HPAGeneration: 37 Beta on
    HPAOptimizedSelectorStore: 37 Beta on
    HPAScaleToZero: 33 Alpha off, 37 Beta on
    HostnameOverride: 34 Alpha off, 35 Beta on, 37 Ga on locked
    HugepageAwareEviction: 37 Beta on
    ImageMaximumGCAge: 33 Beta on, 35 Ga on locked
    ImageVolumeWithDigest: 35 Alpha off
    InOrderInformers: 33 Beta on, 36 Ga on locked
    InOrderInformersBatchProcess: 35 Beta on
    InPlacePodVerticalScalingExclusiveCPUs: 33 Alpha off
    InPlacePodVerticalScalingExclusiveMemory: 34 Alpha off
    InPlacePodVerticalScalingInitContainers: 36 Beta on, 37 Ga on locked
    InPlacePodVerticalScalingMemoryBackedVolumes: 37 Alpha off
    InformerResourceVersion: 33 Alpha off, 35 Ga on
    JobBackoffLimitPerIndex: 33 Ga on locked, 37 removed
    JobManagedBy: 33 Beta on, 35 Ga on locked
    JobPodReplacementPolicy: 33 Beta on, 34 Ga on locked, 37 removed
    JobSuccessPolicy: 33 Ga on locked, 37 removed
    KMSv1: 33 Deprecated off
    KubeProxyIPVS: 33 Ga on, 37 Deprecated on
    KubeProxyNFTablesLocalhostNodePorts: 37 Alpha off
    KubeletAllocatedPodsEndpoint: 37 Alpha off
    KubeletCgroupDriverFromCRI: 33 Beta on, 34 Ga on locked
    KubeletCrashLoopBackOffMax: 33 Alpha off, 35 Beta on
    KubeletEnsureSecretPulledImages: 33 Alpha off, 35 Beta on
    KubeletFineGrainedAuthz: 33 Beta on, 36 Ga on locked
    KubeletInUserNamespace: 33 Alpha off, 37 Beta on
    KubeletPSI: 33 Alpha off, 34 Beta on, 36 Ga on locked
    KubeletPodResourcesDynamicResources: 33 Alpha off, 34 Beta on, 36 Ga on locked
    KubeletPodResourcesGet: 33 Alpha off, 34 Beta on, 36 Ga on locked
    KubeletPodResourcesListUseActivePods: 33 Ga off, 34 Deprecated on
    KubeletRegistrationGetOnExistsOnly: 33 Deprecated off
    KubeletSeparateDiskGC: 33 Beta on
    KubeletServiceAccountTokenForCredentialProviders: 33 Alpha off, 34 Beta on
    KubeletTracing: 33 Beta on, 34 Ga on locked
    ListFromCacheSnapshot: 33 Alpha off, 34 Beta on
    LocalStorageCapacityIsolationFSQuotaMonitoring: 33 Beta off
    LogarithmicScaleDown: 33 Ga on locked, 37 removed
    ManifestBasedAdmissionControlConfig: 36 Alpha off, 37 Beta on
    MaxUnavailableStatefulSet: 33 Alpha off, 35 Beta off, 37 Beta on
    MemoryQoS: 33 Alpha off, 37 Beta on
    MultiCIDRServiceAllocator: 33 Ga on, 34 Ga on locked
    MutableCSINodeAllocatableCount: 33 Alpha off, 34 Beta off, 35 Beta on, 36 Ga on locked
    MutablePVNodeAffinity: 35 Alpha off
    MutablePodResourcesForSuspendedJobs: 35 Alpha off, 36 Beta on
    MutableSchedulingDirectivesForSuspendedJobs: 35 Alpha off, 36 Beta on
    MutatingAdmissionPolicy: 33 Alpha off, 34 Beta off, 36 Ga on
    NFTablesNetlink: 37 Beta on
    NFTablesProxyMode: 33 Ga on locked
    NodeControllerLeaseCircuitBreaker: 37 Beta on
    NodeLifecycleConditions: 37 Alpha off
    NodeLogQuery: 33 Beta off, 36 Ga on locked
    NodeSwap: 33 Beta on, 34 Ga on locked
    OpenAPIEnums: 33 Beta on
    OrderedNamespaceDeletion: 33 Beta on, 34 Ga on locked, 37 removed
    PLEGOnDemandRelist: 36 Beta on, 37 Ga on locked
    PersistentVolumeClaimUnusedSinceTime: 36 Alpha off, 37 Beta on
    PodAndContainerStatsFromCRI: 33 Alpha off, 37 Beta off
    PodCertificateRequest: 34 Alpha off, 35 Beta off, 37 Ga on
    PodDeletionCost: 33 Beta on
    PodLevelResourceManagers: 36 Alpha off, 37 Beta off
    PodLevelResourcesFixDefaulting: 37 Beta on
    PodLevelResourcesFixKubeletQOSClass: 37 Beta on
    PodLifecycleSleepAction: 33 Beta on, 34 Ga on locked, 37 removed
    PodLifecycleSleepActionAllowZero: 33 Beta on, 34 Ga on locked, 37 removed
    PodLogsQuerySplitStreams: 33 Alpha off
    PodReadyToStartContainersCondition: 33 Beta on, 37 Ga on locked
    PodTopologyLabelsAdmission: 33 Alpha off, 35 Beta on
    PodsAPI: 36 Alpha off, 37 Beta on
    PortForwardWebsockets: 33 Beta on
    PreferSameTrafficDistribution: 33 Alpha off, 34 Beta on, 35 Ga on locked
    PreventStaticPodAPIReferences: 34 Beta on, 37 removed
    ProcMountType: 33 Beta on, 36 Ga on locked
    QOSReserved: 33 Alpha off
    RecoverVolumeExpansionFailure: 33 Beta on, 34 Ga on locked
    RecursiveReadOnlyMounts: 33 Ga on locked
    ReduceDefaultCrashLoopBackOffDecay: 33 Alpha off
    RelaxedDNSSearchValidation: 33 Beta on, 34 Ga on locked, 37 removed
    RelaxedEnvironmentVariableValidation: 33 Beta on, 34 Ga on locked
    RelaxedServiceNameValidation: 34 Alpha off, 36 Beta on, 37 Ga on locked
    ReloadKubeletClientCAFile: 36 Beta on
    ReloadKubeletServerCertificateFile: 33 Beta on
    RemoteRequestHeaderUID: 33 Beta on
    ResilientWatchCacheInitialization: 33 Beta on, 34 Ga on locked, 37 removed
    ResourceHealthStatus: 33 Alpha off, 36 Beta on
    ResourceHealthStatusMessage: 36 Beta on
    RestartAllContainersOnContainerExits: 35 Alpha off, 36 Beta on
    RetryGenerateName: 33 Ga on locked, 37 removed
    RotateKubeletServerCertificate: 33 Beta on
    RuntimeClassInImageCriApi: 33 Alpha off
    SELinuxChangePolicy: 33 Beta on, 36 Ga on locked
    SELinuxMount: 33 Beta off, 37 Ga on
    SELinuxMountReadWriteOncePod: 33 Beta on, 36 Ga on locked
    SeparateCacheWatchRPC: 33 Deprecated off, 36 Deprecated off locked
    SeparateTaintEvictionController: 33 Beta on, 34 Ga on locked
    ServiceAccountNodeAudienceRestriction: 33 Beta on
    ServiceAccountTokenJTI: 33 Ga on locked
    ServiceAccountTokenNodeBinding: 33 Ga on locked
    ServiceAccountTokenNodeBindingValidation: 33 Ga on locked
    ServiceAccountTokenPodNodeInfo: 33 Ga on locked
    ServiceCIDRStatusFieldWiping: 33 Ga off, 36 Deprecated on
    ShardedListAndWatch: 36 Alpha off
    SizeBasedListCostEstimate: 34 Beta on
    StaleControllerConsistencyDaemonSet: 36 Beta on
    StaleControllerConsistencyHPA: 37 Beta on
    StaleControllerConsistencyJob: 36 Beta on
    StaleControllerConsistencyReplicaSet: 36 Beta on
    StaleControllerConsistencyStatefulSet: 36 Beta on
    StatefulSetRecreateStrategy: 37 Alpha off
    StatefulSetSemanticRevisionComparison: 33 Beta on
    StorageNamespaceIndex: 33 Deprecated on
    StorageVersionAPI: 33 Alpha off
    StorageVersionHash: 33 Beta on
    StorageVersionMigrator: 33 Alpha off, 35 Beta off, 37 Ga on
    StreamingCollectionEncodingToJSON: 33 Beta on, 34 Ga on locked, 37 removed
    StreamingCollectionEncodingToProtobuf: 33 Beta on, 34 Ga on locked, 37 removed
    StrictIPCIDRValidation: 33 Alpha off, 36 Beta on
    StructuredAuthenticationConfiguration: 33 Beta on, 34 Ga on locked, 37 removed
    StructuredAuthenticationConfigurationEgressSelector: 34 Beta on
    StructuredAuthenticationConfigurationJWKSMetrics: 35 Beta on
    SupplementalGroupsPolicy: 33 Beta on, 35 Ga on locked
    SystemdWatchdog: 33 Beta on, 35 Ga on locked
    TokenRequestServiceAccountUIDValidation: 34 Beta on
    TopologyManagerPolicyAlphaOptions: 33 Alpha off
    TopologyManagerPolicyBetaOptions: 33 Beta on
    TopologyManagerPolicyOptions: 33 Ga on locked
    TranslateStreamCloseWebsocketRequests: 33 Beta on
    UnauthenticatedHTTP2DOSMitigation: 33 Beta on
    UnknownVersionInteroperabilityProxy: 33 Alpha off, 36 Beta on
    UnlockWhileProcessingFIFO: 36 Beta on
    UserNamespacesHostNetworkSupport: 35 Alpha off
    UserNamespacesSupport: 33 Beta on, 36 Ga on locked
    VolumeBindMountOptions: 37 Alpha off
    WatchCacheInitializationPostStartHook: 33 Beta off, 36 Beta on, 37 Ga on locked
    WatchList: 33 Beta off, 34 Beta on
    WatchListCompression: 37 Beta on
    WebhookRoundTripLoadBalancing: 37 Beta on
    WinDSR: 33 Beta on, 34 Ga on locked
    WinOverlay: 33 Beta on, 34 Ga on locked
    WindowsCPUAndMemoryAffinity: 33 Alpha off
    WindowsGracefulNodeShutdown: 33 Alpha off, 34 Beta on
    WindowsHostNetwork: 33 Deprecated off";

/// Dependencies: a gate can be enabled only if all gates after the colon that exist in the release are enabled.
pub(crate) const DEPENDENCIES: &str = "\
    AuthorizeNodeWithSelectors: AuthorizeWithSelectors
    ClusterTrustBundleProjection: ClusterTrustBundle
    CompositePodGroup: GenericWorkload TopologyAwareWorkloadScheduling
    DRAAdminAccess: DynamicResourceAllocation
    DRAConsumableCapacity: DynamicResourceAllocation
    DRADerivedAttributes: DynamicResourceAllocation
    DRADeviceBindingConditions: DynamicResourceAllocation DRAResourceClaimDeviceStatus
    DRADeviceCompatibilityGroups: DynamicResourceAllocation DRAPartitionableDevices
    DRADeviceTaintRules: DRADeviceTaints
    DRADeviceTaints: DynamicResourceAllocation
    DRAExtendedResource: DynamicResourceAllocation
    DRAFractionalCapacityRange: DRAConsumableCapacity
    DRAListTypeAttributes: DynamicResourceAllocation
    DRANodeAllocatableResources: DynamicResourceAllocation
    DRAOptionalNodeOperations: DynamicResourceAllocation NodeDeclaredFeatures
    DRAPartitionableDevices: DynamicResourceAllocation
    DRAPartitionableDevicesType: DynamicResourceAllocation DRAPartitionableDevices DRAResourcePoolStatus
    DRAPrioritizedList: DynamicResourceAllocation
    DRAResourceClaimGranularStatusAuthorization: DynamicResourceAllocation DRAResourceClaimDeviceStatus
    DRAResourcePoolStatus: DynamicResourceAllocation
    DRASchedulerFilterTimeout: DynamicResourceAllocation
    DRAWorkloadResourceClaims: DynamicResourceAllocation GenericWorkload
    DeclarativeValidationBeta: DeclarativeValidation
    DeclarativeValidationTakeover: DeclarativeValidation
    DisableAllocatorDualWrite: MultiCIDRServiceAllocator
    ExtendWebSocketsToKubelet: NodeDeclaredFeatures
    GangScheduling: GenericWorkload
    GracefulNodeShutdownBasedOnPodPriority: GracefulNodeShutdown
    H2CContainerProbe: NodeDeclaredFeatures
    ImageVolumeWithDigest: ImageVolume
    InPlacePodLevelResourcesVerticalScaling: InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures
    InPlacePodVerticalScalingExclusiveCPUs: InPlacePodVerticalScaling
    InPlacePodVerticalScalingExclusiveMemory: InPlacePodVerticalScaling
    InPlacePodVerticalScalingInitContainers: InPlacePodVerticalScaling NodeDeclaredFeatures
    InPlacePodVerticalScalingMemoryBackedVolumes: InPlacePodVerticalScaling NodeDeclaredFeatures
    InPlacePodVerticalScalingSchedulerPreemption: InPlacePodVerticalScaling
    KubeletAllocatedPodsEndpoint: InPlacePodVerticalScaling
    MatchLabelKeysInPodTopologySpreadSelectorMerge: MatchLabelKeysInPodTopologySpread
    NodeControllerLeaseCircuitBreaker: AtomicFIFO
    PodCertificateRequest: AuthorizeNodeWithSelectors
    PodGroupPreemptionPolicy: GenericWorkload
    PodLevelResourceManagers: PodLevelResources
    PodLevelResourcesFixDefaulting: PodLevelResources
    PodLevelResourcesFixKubeletQOSClass: PodLevelResources
    PodLifecycleSleepActionAllowZero: PodLifecycleSleepAction
    ProcMountType: UserNamespacesSupport
    ResourceHealthStatus: DynamicResourceAllocation
    ResourceHealthStatusMessage: ResourceHealthStatus
    RestartAllContainersOnContainerExits: ContainerRestartRules NodeDeclaredFeatures
    ServiceAccountTokenNodeBinding: ServiceAccountTokenNodeBindingValidation
    StaleControllerConsistencyDaemonSet: AtomicFIFO
    StaleControllerConsistencyHPA: AtomicFIFO
    StaleControllerConsistencyJob: AtomicFIFO
    StaleControllerConsistencyReplicaSet: AtomicFIFO
    StaleControllerConsistencyStatefulSet: AtomicFIFO
    StorageVersionAPI: APIServerIdentity
    StructuredAuthenticationConfigurationEgressSelector: StructuredAuthenticationConfiguration
    StructuredAuthenticationConfigurationJWKSMetrics: StructuredAuthenticationConfiguration
    TopologyAwareWorkloadScheduling: GenericWorkload
    UnknownVersionInteroperabilityProxy: APIServerIdentity
    UserNamespacesHostNetworkSupport: UserNamespacesSupport NodeDeclaredFeatures
    WindowsGracefulNodeShutdown: GracefulNodeShutdown
    WorkloadAwarePreemption: GangScheduling
    WorkloadWithJob: GenericWorkload
";
