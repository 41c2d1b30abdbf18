#include "parallel/reduce/host_sum.h"

namespace trireme {

void add_pieces(Context& ctx, const std::vector<Tensor>& pieces, const std::vector<Addition>& additions,
                const Tensor& result) {
  for (std::size_t i = 0; i < additions.size(); ++i) {
    const Tensor& target = pieces[static_cast<std::size_t>(additions[i].target)];
    const Tensor& source = pieces[static_cast<std::size_t>(additions[i].source)];
    ctx.run(AddArgs{.a = target, .b = source, .out = i + 1 < additions.size() ? target : result});
  }
  if (additions.empty()) ctx.backend->copy(ctx.exec, result, pieces[0]);
}

void start_host_sum(const DataAxis& axis, GradExchange& exchange) {
  for (const Chunk& chunk : exchange.chunks) {
    const Shape length{chunk.num_elems};
    exchange.in_host_works.push_back(axis.in_host().all_to_all(
        exchange.sources[0].slice(chunk.first, length), exchange.received[0].slice(chunk.first, length)));
  }
}

void finish_host_sum(Context& ctx, const DataAxis& axis, GradExchange& exchange, std::size_t index) {
  exchange.in_host_works[index].wait();
  const Chunk& chunk = exchange.chunks[index];
  const std::int64_t part = chunk.num_elems / axis.ranks_per_host();
  std::vector<Tensor> pieces;
  std::vector<Subtree> leaves;
  for (int r = 0; r < axis.ranks_per_host(); ++r) {
    pieces.push_back(exchange.received[0].slice(chunk.first + r * part, {part}));
    leaves.push_back({r, 0});
  }
  add_pieces(ctx, pieces, finish_tree(leaves), exchange.sources[0].slice(chunk.first, {part}));
}

}  // namespace trireme
