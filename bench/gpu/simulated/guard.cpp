// PyTorch without CUDA has no device guard for tensors that claim to be on a GPU. This one does nothing.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {
c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> guard;
c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, &guard);
}  // namespace
