#include "runtime/context.h"

#include "runtime/base/error.h"

namespace trireme {

Context Context::create(Device device, int num_threads, std::optional<std::int64_t> memory_limit,
                        const Backend* backend) {
  TRIREME_CHECK(num_threads >= 1, "a rank needs at least one thread, got {}", num_threads);
  Context ctx;
  ctx.backend = backend != nullptr ? backend : &backend_for(device.type);
  ctx.allocator = std::make_shared<Allocator>(device, ctx.backend->make_memory_source(device), memory_limit);
  if (ctx.backend->make_stream != nullptr) ctx.stream = ctx.backend->make_stream(device, ctx.allocator);
  ctx.exec = {.device = device,
              .stream = ctx.stream.get(),
              .num_threads = num_threads,
              .allocator = ctx.allocator.get()};
  ctx.backend->bind_thread(ctx.exec);
  return ctx;
}

Tensor Context::empty(const Shape& shape, DType dtype, MemoryCategory category,
                      std::source_location where) const {
  return Tensor(allocator, shape, dtype, category, where.file_name());
}

Tensor Context::zeros(const Shape& shape, DType dtype, MemoryCategory category,
                      std::source_location where) const {
  Tensor tensor = empty(shape, dtype, category, where);
  backend->fill_zero(exec, tensor);
  return tensor;
}

Tensor Context::from_host(const void* data, const Shape& shape, DType dtype, MemoryCategory category,
                          std::source_location where) const {
  Tensor tensor = empty(shape, dtype, category, where);
  backend->copy_from_host(exec, tensor, data);
  return tensor;
}

std::vector<float> Context::to_host(const Tensor& tensor) const {
  TRIREME_CHECK(size_bytes(tensor.dtype()) >= 2 && tensor.dtype() != DType::kInt32,
                "to_host needs fp32, fp16 or bf16, got {}", name(tensor.dtype()));
  if (tensor.dtype() != DType::kFloat32) {
    const Tensor wide = empty(tensor.shape());
    run(CastArgs{.x = tensor, .y = wide});
    return to_host(wide);
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elems()));
  backend->copy_to_host(exec, values.data(), tensor);
  return values;
}

RngKey Context::next_rng() {
  const RngKey key = rng;
  ++rng.op;
  return key;
}

}  // namespace trireme
