//! Gates of other Kubernetes components and their dependencies.
//!
//! kube-scheduler accepts every gate of the Kubernetes tree, because the same `--feature-gates` value is often passed
//! to all components. Harbormaster accepts them too, but uses only the gates of [`harbormaster_api::features`].

use harbormaster_api::features::Stage;

/// Gates of other components that share one stage, default and locked state.
pub(crate) struct ForeignGates {
    pub(crate) stage: Stage,
    pub(crate) on: bool,
    pub(crate) locked: bool,
    pub(crate) names: &'static str,
}

pub(crate) const FOREIGN_GATES: &[ForeignGates] = &[
    ForeignGates {
        stage: Stage::Alpha,
        on: false,
        locked: false,
        names: "APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage \
                CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR \
                ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation \
                CloudControllerManagerWebhook ContainerStopSignals CrossNamespaceVolumeDataSource \
                DRAResourcePoolStatus EventedPLEG HPAScaleToZero ImageVolumeWithDigest \
                InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory \
                KubeletInUserNamespace ManifestBasedAdmissionControlConfig MemoryQoS \
                MutablePVNodeAffinity PersistentVolumeClaimUnusedSinceTime \
                PodAndContainerStatsFromCRI PodLevelResourceManagers PodLogsQuerySplitStreams \
                PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriAPI \
                ShardedListAndWatch StorageVersionAPI TopologyManagerPolicyAlphaOptions \
                UserNamespacesHostNetworkSupport WindowsCPUAndMemoryAffinity WorkloadWithJob",
    },
    ForeignGates {
        stage: Stage::Beta,
        on: false,
        locked: false,
        names: "ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode \
                LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet \
                PodCertificateRequest SELinuxMount StorageVersionMigrator",
    },
    ForeignGates {
        stage: Stage::Beta,
        on: true,
        locked: false,
        names: "APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO \
                AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions \
                CRDObservedGenerationTracking ClientsAllowCARotation ClientsAllowTLSCacheGC \
                ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules \
                DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas \
                DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown \
                GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride \
                InOrderInformersBatchProcess InPlacePodVerticalScalingInitContainers \
                KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletSeparateDiskGC \
                KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot \
                MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs \
                OpenAPIEnums PLEGOnDemandRelist PodDeletionCost PodReadyToStartContainersCondition \
                PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences \
                RelaxedServiceNameValidation ReloadKubeletClientCAFile \
                ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus \
                ResourceHealthStatusMessage RestartAllContainersOnContainerExits \
                RotateKubeletServerCertificate ServiceAccountNodeAudienceRestriction \
                SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet \
                StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet \
                StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison \
                StorageVersionHash StrictIPCIDRValidation \
                StructuredAuthenticationConfigurationEgressSelector \
                StructuredAuthenticationConfigurationJWKSMetrics \
                TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions \
                TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation \
                UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO \
                WatchCacheInitializationPostStartHook WatchList WindowsGracefulNodeShutdown",
    },
    ForeignGates {
        stage: Stage::Deprecated,
        on: false,
        locked: false,
        names: "AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests \
                ChangeContainerStatusOnKubeletRestart DeclarativeValidationTakeover KMSv1 \
                KubeletRegistrationGetOnExistsOnly WindowsHostNetwork",
    },
    ForeignGates {
        stage: Stage::Deprecated,
        on: true,
        locked: false,
        names: "DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods \
                ServiceCIDRStatusFieldWiping StorageNamespaceIndex",
    },
    ForeignGates {
        stage: Stage::Deprecated,
        on: true,
        locked: true,
        names: "AggregatedDiscoveryRemoveBetaType AllowOverwriteTerminationGracePeriodSeconds \
                DisableNodeKubeProxyVersion GitRepoVolumeDriver SeparateCacheWatchRPC",
    },
    ForeignGates {
        stage: Stage::Ga,
        on: true,
        locked: false,
        names: "AllowServiceExternalIPs CPUCFSQuotaPeriod InformerResourceVersion \
                MutatingAdmissionPolicy",
    },
    ForeignGates {
        stage: Stage::Ga,
        on: true,
        locked: true,
        names: "APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource \
                AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache \
                CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets \
                ConsistentListFromCache CustomResourceFieldSelectors DeclarativeValidation \
                DisableAllocatorDualWrite ExecProbeTimeout ExternalServiceAccountTokenSigner \
                ImageMaximumGCAge InOrderInformers JobBackoffLimitPerIndex JobManagedBy \
                JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI \
                KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources \
                KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown MultiCIDRServiceAllocator \
                MutableCSINodeAllocatableCount NFTablesProxyMode NodeLogQuery NodeSwap \
                OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero \
                PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure \
                RecursiveReadOnlyMounts RelaxedDNSSearchValidation \
                RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization \
                RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod \
                SeparateTaintEvictionController ServiceAccountTokenJTI \
                ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation \
                ServiceAccountTokenPodNodeInfo StreamingCollectionEncodingToJSON \
                StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration \
                SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions \
                UserNamespacesSupport WinDSR WinOverlay",
    },
];

/// Dependencies: a gate can be enabled only if all gates after the colon are enabled.
pub(crate) const DEPENDENCIES: &str = "\
    AuthorizeNodeWithSelectors: AuthorizeWithSelectors
    ClusterTrustBundleProjection: ClusterTrustBundle
    DRAAdminAccess: DynamicResourceAllocation
    DRAConsumableCapacity: DynamicResourceAllocation
    DRADeviceBindingConditions: DynamicResourceAllocation DRAResourceClaimDeviceStatus
    DRADeviceTaintRules: DRADeviceTaints
    DRADeviceTaints: DynamicResourceAllocation
    DRAExtendedResource: DynamicResourceAllocation
    DRAListTypeAttributes: DynamicResourceAllocation
    DRANodeAllocatableResources: DynamicResourceAllocation
    DRAPartitionableDevices: DynamicResourceAllocation
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
    ImageVolumeWithDigest: ImageVolume
    InPlacePodLevelResourcesVerticalScaling: InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures
    InPlacePodVerticalScalingExclusiveCPUs: InPlacePodVerticalScaling
    InPlacePodVerticalScalingExclusiveMemory: InPlacePodVerticalScaling
    InPlacePodVerticalScalingInitContainers: InPlacePodVerticalScaling NodeDeclaredFeatures
    MatchLabelKeysInPodTopologySpreadSelectorMerge: MatchLabelKeysInPodTopologySpread
    PodCertificateRequest: AuthorizeNodeWithSelectors
    PodLevelResourceManagers: PodLevelResources
    PodLifecycleSleepActionAllowZero: PodLifecycleSleepAction
    ProcMountType: UserNamespacesSupport
    ResourceHealthStatus: DynamicResourceAllocation
    ResourceHealthStatusMessage: ResourceHealthStatus
    RestartAllContainersOnContainerExits: ContainerRestartRules NodeDeclaredFeatures
    ServiceAccountTokenNodeBinding: ServiceAccountTokenNodeBindingValidation
    StaleControllerConsistencyDaemonSet: AtomicFIFO
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
