#include "launcher/supervise/supervisor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "launcher/supervise/job_words.h"
#include "launcher/supervise/rank_watch.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kRenewal = std::chrono::seconds(5);
constexpr auto kHostsAgain = std::chrono::seconds(1);
// A job that was told to stop finishes its step and saves a checkpoint.
constexpr auto kTimeToStop = std::chrono::seconds(60);
// Processes go within milliseconds of their mpirun.
constexpr auto kTimeToFollow = std::chrono::seconds(3);

void say(const std::string& text) {
  fmt::print(stderr, "trireme run: {}\n", text);
}

/// Shows what is new in a file.
class Follower {
 public:
  explicit Follower(fs::path path) : path_(std::move(path)) {}
  void show() {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(shown_));
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    shown_ += text.size();
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

 private:
  fs::path path_;
  std::size_t shown_ = 0;
};

}  // namespace

Supervisor::Supervisor(Options options)
    : options_(std::move(options)),
      out_(prepare_output_folder(options_.out)),
      lease_(std::make_unique<Lease>(out_.root)),
      history_(out_.root) {
  fs::create_directories(out_.root / "attempts");
  end_orphan();
}

void Supervisor::end_orphan() {
  if (history_.attempts().empty() || history_.attempts().back().end) return;
  const Attempt& attempt = history_.attempts().back();
  const std::string what = fmt::format("attempt {} ({}) was left without a supervisor", attempt.number,
                                       describe_mark(attempt.process));
  const bool runs = writer_state(attempt.process) == WriterState::kAlive;
  // A number and a start time are those of one process for ever.
  if (runs) kill(std::stoi(attempt.process), SIGUSR1);
  const auto until = Clock::now() + kTimeToStop;
  while (writer_state(attempt.process) == WriterState::kAlive && Clock::now() < until) {
    lease_->renew();
    std::this_thread::sleep_for(kPoll);
  }
  const int killed = end_tagged(attempt.tag, kTimeToFollow);
  const std::string how = killed > 0 ? fmt::format("{} of its processes were killed", killed)
                          : runs     ? std::string("it was told to stop, and has ended")
                                     : std::string("it has ended");
  history_.note("takeover", what + "; " + how);
  say(what + "; " + how);
}

int Supervisor::choose_ranks_now() const {
  RankRange range = options_.ranks;
  if (!options_.hosts.empty()) {
    const int slots = num_slots(options_.hosts);
    TRIREME_CHECK(slots >= range.min, "--hosts {}: {} slot(s) are left, and --ranks asks for {} or more",
                  options_.hosts, slots, range.min);
    range.max = std::min(range.max, slots);
  }
  // What failed twice in one step may be short of a host that no file tells of.
  const auto& attempts = history_.attempts();
  const bool doubtful = num_failures_in_a_row(attempts) >= kSameStepLimit - 1;
  if (doubtful && attempts.back().num_ranks > range.min) {
    range.max = std::min(range.max, attempts.back().num_ranks - 1);
    try {
      return choose_ranks(options_.config, range, options_.launch);
    } catch (const Error&) {  // none below: the same again
      return attempts.back().num_ranks;
    }
  }
  return choose_ranks(options_.config, range, options_.launch);
}

std::vector<std::string> Supervisor::command(int num_ranks) const {
  std::vector<std::string> words = {options_.mpirun};
  words.insert(words.end(), options_.mpirun_options.begin(), options_.mpirun_options.end());
  if (!options_.hosts.empty()) words.insert(words.end(), {"--hostfile", options_.hosts});
  words.insert(words.end(), {"-np", std::to_string(num_ranks), fs::read_symlink("/proc/self/exe").string(),
                             "train", options_.job, "--out", out_.root.string()});
  for (const std::string& one : options_.overrides) words.insert(words.end(), {"--set", one});
  if (options_.config.train.max_minutes > 0)
    words.insert(words.end(), {"--set", fmt::format("train.max_minutes={}", std::max(1e-6, minutes_left()))});
  // A start from a named checkpoint, or from step 0, is the first attempt's only.
  const bool again = history_.attempts().size() > 1 && CheckpointStore(out_.checkpoints()).holds_any();
  if (again) words.insert(words.end(), {"--set", "checkpoint.resume=auto"});
  return words;
}

double Supervisor::minutes_left() const {
  return options_.config.train.max_minutes - Seconds(Clock::now() - start_).count() / 60;
}

// A job that stops on its own has seen its limit; one that fails may leave too little for another attempt.
bool Supervisor::time_is_up() const {
  if (options_.config.train.max_minutes == 0) return false;
  const bool stopped =
      history_.attempts().back().end->exit_code == static_cast<int>(ExitCode::kStopped) && !growing_;
  return stopped || minutes_left() <= 0;
}

bool Supervisor::may_grow(const Attempt& attempt) {
  if (options_.hosts.empty() || growing_ || attempt.num_ranks >= options_.ranks.max) return false;
  try {
    const int slots = num_slots(options_.hosts);
    if (slots <= attempt.num_ranks || slots == seen_slots_) return false;
    if (last_step(out_.metrics()) < attempt.first_step)
      return false;  // no step yet: it could not stop in good order
    seen_slots_ = slots;
    choose_ranks(options_.config, {.min = attempt.num_ranks + 1, .max = std::min(slots, options_.ranks.max)},
                 options_.launch);
    return true;
  } catch (const Error&) {  // of a file that is being written, or of a number that cannot run the job
    return false;
  }
}

void Supervisor::react_to_signals(const JobProcess& job) {
  for (int signal = inbox_.take(); signal != 0; signal = inbox_.take()) {
    // mpirun would give its ranks a second after SIGTERM: SIGUSR1 lets them save a checkpoint.
    job.send(num_signals_++ == 0 ? SIGUSR1 : SIGTERM);
    say(num_signals_ == 1 ? "told to stop: so is the job, after a checkpoint; once more ends it at once"
                          : "told to stop once more: the job is ended");
  }
}

// What is seen when mpirun is gone, or was told to go, says nothing of the ranks.
void Supervisor::look_at_ranks(RankWatch& ranks, JobProcess& job) {
  const auto word = ranks.wait(kPoll);
  if (!word || num_signals_ > 1 || job.poll()) return;
  verdict_ = *word;
  history_.note("verdict", verdict_);
  say(fmt::format("attempt {} fails: {}", history_.attempts().back().number, verdict_));
}

void Supervisor::watch(JobProcess& job, const Attempt& attempt, const fs::path& log) {
  Follower follower(log);
  RankWatch ranks(attempt.tag, attempt.num_ranks);
  auto next_renewal = Clock::now(), next_hosts = Clock::now();
  while (!job.poll()) {
    look_at_ranks(ranks, job);
    follower.show();
    react_to_signals(job);
    if (Clock::now() >= next_renewal) {
      lease_->renew();
      next_renewal = Clock::now() + kRenewal;
    }
    if (Clock::now() < next_hosts) continue;
    next_hosts = Clock::now() + kHostsAgain;
    if (!may_grow(attempt)) continue;
    growing_ = true;
    say("more ranks can run: the job is told to stop, and goes on with them");
    job.send(SIGUSR1);
  }
  end_tagged(attempt.tag, kTimeToFollow);
  follower.show();
}

void Supervisor::run_attempt(int num_ranks) {
  const int number = history_.next_number();
  const fs::path log = out_.root / "attempts" / fmt::format("attempt-{:04}.log", number);
  const auto newest = CheckpointStore(out_.checkpoints()).latest(Verify::kSizes);
  Attempt attempt{.number = number,
                  .num_ranks = num_ranks,
                  .first_step = newest ? newest->manifest.step + 1 : 1,
                  .tag = fmt::format("{}#{}", writer_mark(), number)};
  say(fmt::format("attempt {}: {} rank(s), from step {}", number, num_ranks, attempt.first_step));
  const auto start = Clock::now();
  // Noted first: whenever this process dies, the next supervisor knows the tag.
  history_.begin(attempt);
  JobProcess job({.command = command(num_ranks), .log = log, .tag = attempt.tag});
  history_.set_process(job.mark());
  growing_ = false;
  seen_slots_ = 0;
  verdict_.clear();
  watch(job, attempt, log);
  history_.end({.exit_code = *job.poll(),
                .step = std::max(attempt.first_step, last_step(out_.metrics()) + 1),
                .verdict = verdict_.empty() ? verdict_of(log) : verdict_,
                .seconds = Seconds(Clock::now() - start).count()});
}

bool Supervisor::wait(std::chrono::milliseconds delay) {
  const auto until = Clock::now() + delay;
  while (Clock::now() < until) {
    if (inbox_.take() != 0) return false;
    lease_->renew();
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

ExitCode Supervisor::finish(const Decision& decision) {
  using Kind = Decision::Kind;
  const bool refused = decision.kind == Kind::kGiveUp && !history_.attempts().empty() &&
                       history_.attempts().back().end->exit_code == static_cast<int>(ExitCode::kBadInput);
  const auto [outcome, code] = decision.kind == Kind::kDone      ? std::pair("done", ExitCode::kDone)
                               : decision.kind == Kind::kStopped ? std::pair("stopped", ExitCode::kStopped)
                               : refused                         ? std::pair("gave_up", ExitCode::kBadInput)
                                                                 : std::pair("gave_up", ExitCode::kFailed);
  say(fmt::format("{}; {} attempt(s):\n{}history: {}", decision.reason, history_.attempts().size(),
                  history_.to_text(), history_.path().string()));
  history_.close(outcome, decision.reason);
  return code;
}

ExitCode Supervisor::run() {
  int num_ranks = choose_ranks_now();
  while (true) {
    run_attempt(num_ranks);
    Decision decision = decide(history_.attempts(), {.max_restarts = options_.max_restarts,
                                                     .stop_requested = num_signals_ > 0 || time_is_up()});
    if (decision.kind != Decision::Kind::kRestart) return finish(decision);
    history_.note("restart", decision.reason);
    say(fmt::format("{}; again in {:.1f} s", decision.reason, Seconds(decision.delay).count()));
    if (!wait(decision.delay))
      return finish({.kind = Decision::Kind::kStopped, .reason = "stopped before a restart"});
    try {
      num_ranks = choose_ranks_now();
    } catch (const Error& error) {
      return finish({.kind = Decision::Kind::kGiveUp, .reason = error.what()});
    }
  }
}

}  // namespace trireme
