// A pipeline schedule and a communicator of your own: eager 1F1B (Zhuang et al. 2023) on a slow network.
//
// Eager 1F1B runs more forwards ahead than 1F1B, so that stages compute while messages travel. It keeps more
// activations. examples/extending.md gives the rules that this file follows.
//
// Run:     build/release/bin/06_own_schedule_and_communicator
// Expect:  both schedules print the same state hash. In the simulation, with messages as long as a forward of
// a stage, eager 1F1B takes a fifth less time. The measured milliseconds depend on the machine. Each rank's
// predicted memory is the measured memory. A wrong schedule is refused with a sentence that names rank and
// action. Takes about 2 seconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <tuple>

#include "models/gpt.h"
#include "parallel/comm/communicator_wrapper.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/plan_simulate.h"
#include "parallel/foresee/predict.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"

namespace {
using namespace trireme;
using Clock = std::chrono::steady_clock;

// The schedule: a function that changes the order of the actions in a plan.

// A stage's work on one micro-batch, in one direction.
struct Task {
  bool backward = false;
  int micro_batch = 0;
  auto operator<=>(const Task&) const = default;
};

bool is_backward(const Action& action) {
  using enum ActionKind;
  return action.kind == kBackward || action.kind == kRecompute || action.kind == kSendGradient ||
         action.kind == kRecvGradient;
}

// Warm-up forwards, then a forward and a backward in turns, then the remaining backwards. 1F1B has a warm-up
// of stages - stage - 1. Backwards must stay in the order of the micro-batches: it is the order of the sums.
std::vector<Task> eager_order(int stage, int stages, int micro_batches) {
  const int warm_up = std::min(2 * (stages - stage - 1), micro_batches);
  std::vector<Task> order;
  for (int i = 0; i < warm_up; ++i) order.push_back({.backward = false, .micro_batch = i});
  for (int i = 0; i < micro_batches; ++i) {
    if (warm_up + i < micro_batches) order.push_back({.backward = false, .micro_batch = warm_up + i});
    order.push_back({.backward = true, .micro_batch = i});
  }
  return order;
}

// Brings the tasks of a rank into another order. The receives of a task are posted before the previous task
// runs, so that messages arrive meanwhile. Exchanges of gradients and the update follow the last task.
void reorder(RankPlan& rank, const std::vector<Task>& order) {
  std::map<Task, std::vector<Action>> receives, runs;
  std::vector<Action> end;
  for (const Action& action : rank.actions) {
    const Task task{.backward = is_backward(action), .micro_batch = action.micro_batch};
    (action.micro_batch < 0 ? end : is_receive(action.kind) ? receives[task] : runs[task]).push_back(action);
  }
  rank.actions.clear();
  const auto append = [&](const std::vector<Action>& actions) {
    rank.actions.insert(rank.actions.end(), actions.begin(), actions.end());
  };
  append(receives[order.front()]);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i + 1 < order.size()) append(receives[order[i + 1]]);
    append(runs[order[i]]);
  }
  append(end);
  rank.send_window = 2;  // sends that may wait for their receives
}

// For whole parameters: with ZeRO-3, gathers and releases would have to move with their tasks.
void make_eager(StepPlan& plan) {
  const int stages = plan.mesh.size(Axis::kPipeline);
  for (int rank = 0; rank < plan.mesh.num_ranks(); ++rank) {
    RankPlan& own = plan.ranks[static_cast<std::size_t>(rank)];
    if (std::ranges::find(own.actions, ActionKind::kOptimStep, &Action::kind) == own.actions.end()) return;
    reorder(own, eager_order(plan.mesh.coord(rank)[Axis::kPipeline], stages, own.micro_batches));
  }
}

// The communicator: a network on which each message needs `kDelay`, in either direction.

constexpr auto kDelay = std::chrono::milliseconds(2);

// The arrival times of messages under way, by sender, receiver and tag. Messages of a channel keep their
// order. Shared by the ranks, which are threads of this process.
class Wire {
 public:
  void post(int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    arrivals_[{from, to, tag}].push_back(Clock::now() + kDelay);
  }
  Clock::time_point take(int from, int to, int tag) {
    const std::lock_guard lock(mutex_);
    std::deque<Clock::time_point>& channel = arrivals_[{from, to, tag}];
    const Clock::time_point arrival = channel.front();
    channel.pop_front();
    return arrival;
  }

 private:
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, std::deque<Clock::time_point>> arrivals_;
};

// Delays messages, and forwards everything else. Posting must not wait; wait() does.
class SlowNetwork final : public CommunicatorWrapper {
 public:
  SlowNetwork(std::shared_ptr<Communicator> fast, std::shared_ptr<Wire> wire)
      : CommunicatorWrapper(std::move(fast)), wire_(std::move(wire)) {}

 protected:
  // A wrapped group has messages of its own. In this example only one group, the pipeline, has any.
  std::shared_ptr<Communicator> wrap(std::shared_ptr<Communicator> group) const override {
    return std::make_shared<SlowNetwork>(std::move(group), wire_);
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override {
    wire_->post(rank(), peer, tag);
    return inner().send(tensor, peer, tag);
  }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override {
    return then(inner().recv(tensor, peer, tag), [wire = wire_, peer, me = rank(), tag] {
      std::this_thread::sleep_until(wire->take(peer, me, tag));
    });
  }

 private:
  const std::shared_ptr<Wire> wire_;
};

// A GPT on 4 stages that counts.
constexpr int kStages = 4;
constexpr std::int64_t kBatch = 16, kLength = 8;

HostBatch digits(std::int64_t first, std::int64_t count) {
  HostBatch batch{.input_shape = {count, kLength}, .target_shape = {count, kLength}};
  for (std::int64_t i = first * kLength; i < (first + count) * kLength; ++i) {
    const auto digit = static_cast<std::int32_t>(i % 10);
    const auto bytes = std::as_bytes(std::span(&digit, 1));
    batch.inputs.insert(batch.inputs.end(), bytes.begin(), bytes.end());
    batch.targets.push_back((digit + 1) % 10);
  }
  return batch;
}

EngineOptions options_of(const std::function<void(StepPlan&)>& rewrite_plan) {
  return {.global_batch = kBatch,
          .micro_batch = 2,
          .layout = {.pipeline = kStages},
          .sample = SampleSpec{.input = {kLength}, .target = {kLength}},
          .rewrite_plan = rewrite_plan};
}

std::shared_ptr<const BlockList> gpt() {
  return std::make_shared<const BlockList>(
      build_gpt({.layers = 6, .hidden = 16, .heads = 2, .vocab = 10, .seq_len = kLength}));
}

struct Outcome {
  std::uint64_t hash = 0;
  double simulated_ms = 0;
};

Outcome run(const char* name, const std::function<void(StepPlan&)>& rewrite_plan) {
  const auto blocks = gpt();
  const EngineOptions options = options_of(rewrite_plan);
  const auto wire = std::make_shared<Wire>();
  Outcome outcome;
  run_local_ranks(kStages, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(blocks, std::make_shared<SlowNetwork>(comm, wire), options);
    StepResult result;
    double fastest_ms = 1e9;
    for (int step = 0; step < 10; ++step) {
      const Clock::time_point begin = Clock::now();
      result = engine.step(digits, kBatch * kLength, 1e-2);
      fastest_ms =
          std::min(fastest_ms, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    }
    const std::int64_t measured = result.memory.peak[MemoryCategory::kActivations];
    const std::int64_t predicted = predict_step(blocks, options, *options.sample, kStages, comm->rank())
                                       .memory.peak[MemoryCategory::kActivations];
    TRIREME_CHECK(measured == predicted, "predicted {} bytes, measured {}", predicted, measured);
    const std::uint64_t hash = engine.state_hash();
    if (comm->rank() > 0) return;

    // In units of a block's forward, of which each stage has two.
    PlanTimes times{.blocks = std::vector<BlockTime>(blocks->size()), .send_ms = 2};
    for (BlockTime& block : times.blocks) block = {.block = "", .forward_ms = 1, .backward_ms = 2};
    outcome = {.hash = hash, .simulated_ms = simulate_plan(engine.plan(), times).duration_ms()};
    std::printf("%-11s hash %016llx  activations %6lld bytes  simulated %3.0f units  measured %.0f ms\n",
                name, static_cast<unsigned long long>(hash), static_cast<long long>(measured),
                outcome.simulated_ms, fastest_ms);
  });
  return outcome;
}

// The message of the validator about a schedule whose stages run all tasks backwards.
std::string refusal() {
  const auto blocks = gpt();
  const auto turn_around = [](StepPlan& plan) { std::ranges::reverse(plan.ranks[1].actions); };
  try {
    predict_step(blocks, options_of(turn_around), {.input = {kLength}, .target = {kLength}}, kStages, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

int main() {
  const Outcome plain = run("1F1B", {});
  const Outcome eager = run("eager 1F1B", make_eager);
  const std::string refused = refusal();
  std::printf("reversed    %s\n", refused.c_str());
  const bool named = refused.find("rank 1") != std::string::npos;
  return plain.hash == eager.hash && eager.simulated_ms < plain.simulated_ms && named ? 0 : 1;
}
