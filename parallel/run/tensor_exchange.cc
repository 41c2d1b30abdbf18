#include "parallel/run/tensor_exchange.h"

#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {

ChunkRange TensorExchange::own_chunks(int chunks) const {
  const int count = chunks / places_.size();
  return {.first = places_.rank() * count, .count = count};
}

void TensorExchange::sum_partials(Context& ctx, const Tensor& partial) {
  ++unsettled_;
  const int places = places_.size();
  const std::int64_t elems = partial.num_elems(), piece = elems / places;
  TRIREME_CHECK(piece * places == elems, "a partial sum {} cannot be exchanged in {} equal pieces",
                partial.shape().to_string(), places);
  const Tensor flat = partial.reshape({elems});
  const Tensor pieces = ctx.empty({elems}, DType::kFloat32, MemoryCategory::kCommunication);
  places_.all_to_all(flat, pieces).wait();
  const auto from = [&](int place) { return pieces.slice(place * piece, {piece}); };
  for (int apart = 1; apart < places; apart *= 2) {
    for (int left = 0; left < places; left += 2 * apart) {
      ctx.run(AddArgs{.a = from(left), .b = from(left + apart), .out = from(left)});
    }
  }
  places_.all_gather(from(0), flat).wait();
}

Tensor TensorExchange::gather_partials(Context& ctx, const Tensor& own) {
  ++unsettled_;
  Tensor all = ctx.empty({places_.size() * own.num_elems()}, DType::kFloat32, MemoryCategory::kCommunication);
  places_.all_gather(own.reshape({own.num_elems()}), all).wait();
  return all;
}

void TensorExchange::settle_sum() {
  TRIREME_CHECK(unsettled_ > 0,
                "the block makes fewer sums over the tensor axis than Block::tensor_sums() says");
  --unsettled_;
}

void TensorExchange::check_settled() const {
  TRIREME_CHECK(unsettled_ == 0,
                "the block makes {} sums over the tensor axis more than Block::tensor_sums() says",
                unsettled_);
}

}  // namespace trireme
