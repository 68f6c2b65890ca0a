// Differences between the versions of PyTorch that the shim is compiled for.
#pragma once

#include <torch/version.h>

#define CUBEYARD_TORCH_FROM(minor) (TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= (minor)))

// DeviceGuardImplInterface::getStreamNativeHandle
#define CUBEYARD_STREAM_HANDLES CUBEYARD_TORCH_FROM(11)
// DeviceGuardImplInterface::getDeviceCapability
#define CUBEYARD_DEVICE_CAPABILITY CUBEYARD_TORCH_FROM(11)
