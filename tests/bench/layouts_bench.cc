// Compares the step times of several layouts of one GPT-2. In each round every layout takes a turn of some
// steps, back to back, as in a run: no barrier hides the end of an exchange, and a turn ends when everything
// that its last step started has ended. Each round begins with another layout, so that a machine that slows
// down affects all of them. Prints one JSON object per layout: medians over the rounds, and medians of the
// ratios to the first layout of a set in the same round.
//
//   mpirun --bind-to none -np 4 layouts_bench --cases overlap      zero stages, prefetch, progress thread
//   layouts_bench --cases recompute --threads 2                    recompute against keeping everything
//
// exposed_ms is the part of a step that the rank's thread spends in communication (metrics: comm_wait_ms).
// total_ms is the same if every call is waited for at once: all communication, and the time that ranks wait
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
#include "parallel/comm/communicator_wrapper.h"
#include "parallel/comm/mpi.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_gpt.h"

namespace trireme::bench {
namespace {

// Waits for every call before it returns.
class BlockingCommunicator final : public CommunicatorWrapper {
 public:
  using CommunicatorWrapper::CommunicatorWrapper;
  std::string kind() const override { return "blocking " + inner().kind(); }

 protected:
  std::shared_ptr<Communicator> wrap(std::shared_ptr<Communicator> group) const override { return group; }
  static Work finish(Work work) {
    work.wait();
    return {};
  }
  Work all_reduce_impl(const Tensor& t, ReduceOp op) override { return finish(inner().all_reduce(t, op)); }
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override {
    return finish(inner().reduce_scatter(in, out, op));
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override {
    return finish(inner().all_gather(in, out));
  }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override {
    return finish(inner().all_to_all(in, out));
  }
  Work broadcast_impl(const Tensor& t, int root) override { return finish(inner().broadcast(t, root)); }
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
  std::unique_ptr<Engine> engine;
  std::vector<double> step_ms, exposed_ms;  // means per step, by round
};

std::vector<Case> cases_of(const std::string& set) {
  std::vector<Case> cases;
  if (set == "recompute") {
    for (const int k : {0, 1, 2, 4}) {
      cases.push_back({.name = fmt::format("recompute_every {}", k), .recompute = k});
    }
    return cases;
  }
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

std::int64_t global_batch(const Options& o, const Communicator& world) {
  return o.micro_batch * o.accumulation * world.size();
}

void make_engine(const Options& o, const std::shared_ptr<Communicator>& world, Case& c) {
  const auto comm = c.blocking ? std::make_shared<BlockingCommunicator>(world) : world;
  c.engine = std::make_unique<Engine>(build_gpt(o.model), comm,
                                      EngineOptions{.threads = o.threads,
                                                    .global_batch = global_batch(o, *world),
                                                    .micro_batch = o.micro_batch,
                                                    .grad_clip = 1.0f,
                                                    .layout = {.zero = static_cast<ZeroStage>(c.zero),
                                                               .prefetch_depth = c.prefetch,
                                                               .recompute_every = c.recompute}});
}

// Runs steps back to back, and waits for everything that the last one left in flight.
void take_turn(const Options& o, Communicator& world, Case& c, int steps) {
  using Clock = std::chrono::steady_clock;
  world.progress_in_background(c.progress);
  const BatchSource source = testing::token_source(o.model.vocab, o.model.seq_len, 0);
  const std::int64_t num_targets = global_batch(o, world) * o.model.seq_len;
  world.barrier();
  const Clock::time_point start = Clock::now();
  const double exposed_before = world.exposed_ms();
  for (int step = 0; step < steps; ++step) c.engine->step(source, num_targets, 1e-3);
  c.engine->parameters().settle();
  c.step_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count() / steps);
  c.exposed_ms.push_back((world.exposed_ms() - exposed_before) / steps);
  world.barrier();  // the others' last messages may need this rank
  world.progress_in_background(false);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_ratio(const std::vector<double>& values, const std::vector<double>& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / base[i]);
  return median(std::move(ratios));
}

void run_cases(const Options& o, const std::shared_ptr<Communicator>& world) {
  std::vector<Case> cases = cases_of(o.cases);
  for (Case& c : cases) {
    make_engine(o, world, c);
    take_turn(o, *world, c, 1);  // fills caches
    c.step_ms.clear();
    c.exposed_ms.clear();
  }
  for (std::size_t round = 0; round < static_cast<std::size_t>(o.rounds); ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      take_turn(o, *world, cases[(round + i) % cases.size()], o.steps);
    }
  }
  if (world->rank() != 0) return;
  for (const Case& c : cases) {
    fmt::print("{}\n", nlohmann::ordered_json{{"layout", c.name},
                                              {"ranks", world->size()},
                                              {"step_ms", median(c.step_ms)},
                                              {"ratio", median_ratio(c.step_ms, cases.front().step_ms)},
                                              {"min_step_ms", std::ranges::min(c.step_ms)},
                                              {c.blocking ? "total_ms" : "exposed_ms", median(c.exposed_ms)}}
                           .dump());
  }
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
  app.add_option("--rounds", o.rounds, "turns of all layouts")->check(CLI::PositiveNumber);
  app.add_option("--steps", o.steps, "timed steps of a layout in a turn")->check(CLI::PositiveNumber);
  app.add_option("--cases", o.cases)->check(CLI::IsMember({"overlap", "recompute"}));
  CLI11_PARSE(app, argc, argv);
  const MpiSession session;
  try {
    run_cases(o, session.world());
  } catch (const std::exception& e) {
    session.world()->abort(Error(ErrorCode::kRuntime, std::string(e.what())));
  }
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::bench::run(argc, argv);
}
