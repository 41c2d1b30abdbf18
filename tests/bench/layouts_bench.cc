// What a layout costs in time: the same GPT-2 step under several layouts, in turns, so that a busy machine
// slows all of them alike. Prints one JSON object a layout; each figure is the median over all timed steps of
// rank 0.
//
//   mpirun --bind-to none -np 4 layouts_bench --cases overlap      zero stages, prefetch, progress thread
//   layouts_bench --cases recompute --threads 2                    recompute against keeping everything
//
// exposed_ms is the part of a step that the rank's thread spends in communication (metrics: comm_wait_ms).
// total_ms is the same when every call is waited for at once: all of the communication, and what ranks wait
// for one another, without overlap.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/gpt.h"
#include "parallel/comm/mpi.h"
#include "parallel/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme::bench {
namespace {

// Waits for every call before it returns.
class BlockingCommunicator final : public Communicator {
 public:
  explicit BlockingCommunicator(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string kind() const override { return "blocking " + inner_->kind(); }
  DeviceType device_type() const override { return inner_->device_type(); }
  std::shared_ptr<Communicator> split(int color) override { return inner_->split(color); }
  void abort(const std::string& message) noexcept override { inner_->abort(message); }

 protected:
  static Work finish(Work work) {
    work.wait();
    return {};
  }
  Work all_reduce_impl(const Tensor& t, ReduceOp op) override { return finish(inner_->all_reduce(t, op)); }
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override {
    return finish(inner_->reduce_scatter(in, out, op));
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override {
    return finish(inner_->all_gather(in, out));
  }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override {
    return finish(inner_->all_to_all(in, out));
  }
  Work broadcast_impl(const Tensor& t, int root) override { return finish(inner_->broadcast(t, root)); }
  Work send_impl(const Tensor& t, int peer, int tag) override { return inner_->send(t, peer, tag); }
  Work recv_impl(const Tensor& t, int peer, int tag) override { return inner_->recv(t, peer, tag); }
  void barrier_impl() override { inner_->barrier(); }
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override {
    return inner_->all_gather_strings(text);
  }

 private:
  std::shared_ptr<Communicator> inner_;
};

struct Options {
  GptConfig model{.layers = 8, .hidden = 256, .heads = 4, .vocab = 1024, .seq_len = 128};
  std::int64_t micro_batch = 4, accumulation = 1;
  int threads = 1, rounds = 5, steps = 4;
  std::string cases = "overlap";
};

struct Case {
  std::string name;
  int zero = 0;
  int prefetch = 1;
  int recompute = 0;
  bool progress = false;
  bool blocking = false;
  std::vector<double> step_ms, exposed_ms;
};

std::vector<Case> cases_of(const std::string& set) {
  if (set == "recompute") {
    return {{.name = "recompute_every 0"},
            {.name = "recompute_every 1", .recompute = 1},
            {.name = "recompute_every 2", .recompute = 2},
            {.name = "recompute_every 4", .recompute = 4}};
  }
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, int zero, int prefetch) {
    cases.push_back({.name = name, .zero = zero, .prefetch = prefetch});
    cases.push_back(
        {.name = name + ", progress thread", .zero = zero, .prefetch = prefetch, .progress = true});
    cases.push_back({.name = name + ", blocking", .zero = zero, .prefetch = prefetch, .blocking = true});
  };
  add("zero 0", 0, 1);
  add("zero 1", 1, 1);
  add("zero 3, prefetch 0", 3, 0);
  add("zero 3, prefetch 1", 3, 1);
  add("zero 3, prefetch 2", 3, 2);
  return cases;
}

void run_case(const Options& o, const std::shared_ptr<Communicator>& world, Case& c) {
  using Clock = std::chrono::steady_clock;
  const auto comm = c.blocking ? std::make_shared<BlockingCommunicator>(world) : world;
  const std::int64_t batch = o.micro_batch * o.accumulation * world->size();
  world->progress_in_background(c.progress);
  {
    Engine engine(build_gpt(o.model), comm,
                  {.threads = o.threads,
                   .global_batch = batch,
                   .micro_batch = o.micro_batch,
                   .grad_clip = 1.0f,
                   .zero = static_cast<ZeroStage>(c.zero),
                   .recompute_every = c.recompute,
                   .prefetch_depth = c.prefetch});
    for (int step = 0; step <= o.steps; ++step) {
      world->barrier();
      const Clock::time_point start = Clock::now();
      const StepResult result = engine.step(testing::token_source(o.model.vocab, o.model.seq_len, 0),
                                            batch * o.model.seq_len, 1e-3);
      if (step == 0) continue;  // fills caches
      c.step_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      c.exposed_ms.push_back(result.comm_wait_ms);
    }
  }
  world->progress_in_background(false);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int run(int argc, char** argv) {
  CLI::App app("Times layouts of one training step.");
  Options o;
  app.add_option("--layers", o.model.layers);
  app.add_option("--hidden", o.model.hidden);
  app.add_option("--heads", o.model.heads);
  app.add_option("--vocab", o.model.vocab);
  app.add_option("--context", o.model.seq_len);
  app.add_option("--micro-batch", o.micro_batch, "samples a forward");
  app.add_option("--accumulation", o.accumulation, "micro-batches a step and rank");
  app.add_option("--threads", o.threads, "threads a rank");
  app.add_option("--rounds", o.rounds, "turns of all layouts");
  app.add_option("--steps", o.steps, "timed steps of a layout in a turn");
  app.add_option("--cases", o.cases)->check(CLI::IsMember({"overlap", "recompute"}));
  CLI11_PARSE(app, argc, argv);
  const MpiSession session;
  try {
    std::vector<Case> cases = cases_of(o.cases);
    for (int round = 0; round < o.rounds; ++round) {
      for (Case& c : cases) run_case(o, session.world(), c);
    }
    for (const Case& c : cases) {
      if (session.world()->rank() != 0) break;
      fmt::print("{}\n",
                 nlohmann::ordered_json{{"layout", c.name},
                                        {"ranks", session.world()->size()},
                                        {"step_ms", median(c.step_ms)},
                                        {"min_step_ms", std::ranges::min(c.step_ms)},
                                        {c.blocking ? "total_ms" : "exposed_ms", median(c.exposed_ms)}}
                     .dump());
    }
  } catch (const std::exception& e) {
    session.world()->abort(e.what());
  }
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::bench::run(argc, argv);
}
