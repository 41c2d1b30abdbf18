#include "launcher/supervise/supervisor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <thread>

#include "launcher/supervise/attempt_end.h"
#include "launcher/supervise/attempt_folder.h"
#include "launcher/supervise/disk_room.h"
#include "launcher/supervise/job_output.h"
#include "launcher/supervise/mpirun_words.h"
#include "launcher/supervise/rank_watch.h"
#include "launcher/supervise/stopped_processes.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/checkpoint_store.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kRestartPoll = std::chrono::milliseconds(50);
constexpr auto kRenewal = std::chrono::seconds(5);
constexpr auto kLookAgain = std::chrono::seconds(1);  // interval for hosts and stopped processes
// A job that was told to stop finishes its step and saves a checkpoint.
constexpr auto kTimeToStop = std::chrono::seconds(60);
// Ranks end within milliseconds of their mpirun.
constexpr auto kTimeToFollow = std::chrono::seconds(3);
// mpirun ends a job within seconds of announcing it, but waits for a lost host.
constexpr auto kTimeToEnd = std::chrono::seconds(6);
// For a job with a silent host: mpirun notices it within this time or never.
constexpr auto kTimeToEndWithoutHost = std::chrono::seconds(4);
// Makes mpirun notice a silent host within about four seconds instead of minutes.
constexpr const char* kKeepAlive = "oob_tcp_keepalive_time";

}  // namespace

Supervisor::Supervisor(Options options)
    : options_(std::move(options)),
      is_new_(!fs::exists(options_.out)),
      out_(prepare_output_folder(options_.out)),
      lease_(std::make_unique<Lease>(out_.root)),
      history_(out_.root),
      disk_({.limit = std::chrono::milliseconds(std::llround(options_.max_disk_minutes * 60'000)),
             .pause = [this](std::chrono::milliseconds pause) { return wait(pause); },
             .log = say}) {
  const bool is_first = fs::create_directories(out_.root / "attempts");
  try {
    end_orphan();
    if (!options_.hosts.empty()) find_hosts();
    place_ = choose_place();
  } catch (...) {
    if (is_first) leave_nothing();
    throw;
  }
}

// Runs while the lease is held. The folder itself is removed only if it is empty.
void Supervisor::leave_nothing() noexcept {
  std::error_code error;
  fs::remove_all(out_.root / "attempts", error);
  if (!is_new_) return;
  fs::remove(out_.root / Lease::kFile, error);
  lease_.reset();
  fs::remove(out_.root, error);
}

void Supervisor::find_hosts() {
  std::vector<std::string> mpirun = {options_.mpirun};
  mpirun.insert(mpirun.end(), options_.mpirun_options.begin(), options_.mpirun_options.end());
  const auto& device = options_.config.parallel.device;
  const std::string word = !device ? "auto" : *device == DeviceType::kCpu ? "cpu" : "cuda";
  hosts_ = std::make_unique<HostPool>(HostPool::Options{
      .file = options_.hosts,
      .num_spares = options_.num_spares,
      .min_slots = options_.ranks.min,
      .probe = {.mpirun = mpirun,
                .program = {fs::read_symlink("/proc/self/exe").string(), "doctor", "--arithmetic", word},
                .folder = out_.root / "attempts"},
      .while_waiting = [this] { lease_->renew(); }});
  // Hosts of a job that is taken over may be gone.
  hosts_->examine(history_.attempts().empty() ? HostPool::Strictness::kRefuse
                                              : HostPool::Strictness::kLeaveOut);
}

void Supervisor::end_orphan() {
  if (history_.attempts().empty() || history_.attempts().back().end) return;
  const Attempt& attempt = history_.attempts().back();
  const std::string what = fmt::format("attempt {} ({}) was left without a supervisor", attempt.number,
                                       describe_mark(attempt.process));
  const bool runs = writer_state(attempt.process) == WriterState::kAlive;
  // A process id and its start time identify one process for ever.
  if (runs) kill(std::stoi(attempt.process), SIGUSR1);
  for (const int process : stopped_processes(attempt.tag)) kill(process, SIGCONT);
  const auto until = Clock::now() + kTimeToStop;
  while (writer_state(attempt.process) == WriterState::kAlive && Clock::now() < until) {
    lease_->renew();
    std::this_thread::sleep_for(kRestartPoll);
  }
  const int killed = end_tagged(attempt.tag, kTimeToFollow);
  AttemptFolder(attempt.tag).remove();
  AttemptRecords(out_.root, attempt.tag).remove_host_folder();
  const std::string how = killed > 0 ? fmt::format("{} of its processes were killed", killed)
                          : runs     ? std::string("it was asked to stop and has ended")
                                     : std::string("it has ended");
  history_.note("takeover", what + "; " + how);
  say(what + "; " + how);
}

Supervisor::Place Supervisor::choose_place() const {
  RankRange range = options_.ranks;
  Place place;
  const auto& attempts = history_.attempts();
  bool same_hosts = true;
  if (hosts_) {
    place.hosts = hosts_->choose(attempts);
    const int slots = num_slots(place.hosts.used);
    TRIREME_CHECK(slots >= range.min,
                  "--hosts {}: only {} slot(s) are usable, but --ranks needs at least {}{}", options_.hosts,
                  slots, range.min, hosts_->describe_missing());
    range.max = std::min(range.max, slots);
    same_hosts = attempts.empty() || attempts.back().hosts == names_of(place.hosts.used);
  }
  // Two failures at one step may mean that a host is missing, which no file shows.
  const bool doubtful = same_hosts && num_failures_in_a_row(attempts) >= kSameStepLimit - 1;
  if (doubtful && attempts.back().num_ranks > range.min) {
    range.max = std::min(range.max, attempts.back().num_ranks - 1);
    try {
      place.num_ranks = choose_ranks(options_.config, range, options_.launch);
    } catch (const Error&) {  // no smaller number works: keep this one
      place.num_ranks = attempts.back().num_ranks;
    }
    return place;
  }
  place.num_ranks = choose_ranks(options_.config, range, options_.launch);
  return place;
}

std::string Supervisor::describe_place() const {
  if (!hosts_) return "";
  std::string text = ", on " + to_text(place_.hosts.used);
  if (!place_.hosts.spares.empty()) text += "; spare: " + to_text(place_.hosts.spares);
  if (!place_.hosts.left_out.empty())
    text += fmt::format("; excluded until other hosts fail, too: {}", to_text(place_.hosts.left_out));
  const std::string missing = hosts_->describe_missing();
  return missing.empty() ? text : text + "; unusable:" + missing;
}

std::string Supervisor::describe_limit() const {
  const double minutes = options_.config.train.max_minutes;
  if (minutes == 0) return "";
  const double left = std::max(0.0, minutes_left());
  return fmt::format("; {} of train.max_minutes = {} are left",
                     left < 10 ? fmt::format("{:.3g}", left) : fmt::format("{:.0f}", left), minutes);
}

std::vector<std::string> Supervisor::command(const fs::path& host_file,
                                             const std::vector<std::string>& options) const {
  std::vector<std::string> words = {options_.mpirun};
  words.insert(words.end(), options_.mpirun_options.begin(), options_.mpirun_options.end());
  if (hosts_) {
    if (std::ranges::find(options_.mpirun_options, kKeepAlive) == options_.mpirun_options.end())
      words.insert(words.end(), {"--mca", kKeepAlive, "1", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
                                 "oob_tcp_keepalive_probes", "2"});
    const std::vector<std::string> naming =
        naming_options(read_hosts(options_.hosts), options_.mpirun_options);
    words.insert(words.end(), naming.begin(), naming.end());
    words.insert(words.end(), {"--hostfile", host_file.string()});
  }
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(),
               {"-np", std::to_string(place_.num_ranks), fs::read_symlink("/proc/self/exe").string(), "train",
                options_.job, "--out", out_.root.string(), "--attempt", history_.attempts().back().tag});
  for (const std::string& one : options_.overrides) words.insert(words.end(), {"--set", one});
  if (options_.config.train.max_minutes > 0)
    words.insert(words.end(), {"--set", fmt::format("train.max_minutes={}", std::max(1e-6, minutes_left()))});
  // A named checkpoint, or a start from step 0, applies only to the first attempt.
  const bool again = history_.attempts().size() > 1 && CheckpointStore(out_.checkpoints()).holds_any();
  if (again) words.insert(words.end(), {"--set", "checkpoint.resume=auto"});
  return words;
}

double Supervisor::minutes_left() const {
  return options_.config.train.max_minutes - Seconds(Clock::now() - start_).count() / 60;
}

// A job that stops on its own has reached its limit; after a failure too little time may be left.
bool Supervisor::time_is_up() const {
  if (options_.config.train.max_minutes == 0) return false;
  const bool stopped =
      history_.attempts().back().end->exit_code == static_cast<int>(ExitCode::kStopped) && !growing_;
  return stopped || minutes_left() <= 0;
}

bool Supervisor::may_grow(const Attempt& attempt) {
  if (!hosts_ || growing_) return false;
  try {
    hosts_->look_again();
    if (attempt.num_ranks >= options_.ranks.max) return false;
    const int slots = num_slots(hosts_->choose(history_.attempts()).used);
    if (slots <= attempt.num_ranks || slots == seen_slots_) return false;
    if (last_step(out_.metrics()) < attempt.first_step)
      return false;  // no step done yet: it could not stop cleanly
    seen_slots_ = slots;
    choose_ranks(options_.config, {.min = attempt.num_ranks + 1, .max = std::min(slots, options_.ranks.max)},
                 options_.launch);
    return true;
  } catch (const Error&) {  // the host file is being written, or this number of ranks cannot run the job
    return false;
  }
}

void Supervisor::react_to_signals(const JobProcess& job) {
  for (int signal = inbox_.take(); signal != 0; signal = inbox_.take()) {
    // SIGUSR1 lets the ranks save a checkpoint; after SIGTERM mpirun would kill them within a second.
    job.send(num_signals_++ == 0 ? SIGUSR1 : SIGTERM);
    say(num_signals_ == 1
            ? "stop requested: the job saves a checkpoint and ends; a second signal ends it at once"
            : "stop requested again: ending the job at once");
  }
}

// Ranks die when mpirun is gone or was told to end: such deaths are expected.
void Supervisor::look_at_ranks(RankWatch& ranks, AttemptEnd& end, JobProcess& job) {
  const auto death = ranks.wait(kRestartPoll);
  if (num_signals_ > 1 || job.poll()) return;
  end.look();
  if (death) end.announce(*death);
}

void Supervisor::watch(JobProcess& job, const Attempt& attempt, const fs::path& log, AttemptEnd& end) {
  bool is_ended = false;  // by mpirun
  MpirunReports reports;
  JobOutput output(log, [&](std::string_view line) {
    is_ended = is_ended || ends_job(line);
    // Ranks that stop as requested exit with 75, which mpirun reports as an error. The log keeps the reports.
    if (num_signals_ > 0 && reports.take(line)) return true;
    return end.records().take(line);
  });
  RankWatch ranks(attempt.tag, attempt.num_ranks);
  StoppedProcesses stopped(attempt.tag, job.process());
  auto next_renewal = Clock::now(), next_look = Clock::now();
  std::optional<Clock::time_point> failed;
  bool killed_mpirun = false;
  while (!job.poll()) {
    output.show();
    look_at_ranks(ranks, end, job);
    // mpirun's messages may be lost if a host is silent.
    if ((is_ended || end.is_announced()) && !failed) failed = Clock::now();
    const auto time_to_end = end.blames_silent_host() ? kTimeToEndWithoutHost : kTimeToEnd;
    if (failed && Clock::now() > *failed + time_to_end) {
      say(fmt::format("mpirun is still running {} s after the job's failure: killing it",
                      time_to_end.count()));
      job.send(SIGKILL);
      killed_mpirun = true;
      failed = Clock::time_point::max() - kTimeToEnd;
    }
    react_to_signals(job);
    if (Clock::now() >= next_renewal) {
      lease_->renew();
      next_renewal = Clock::now() + kRenewal;
    }
    if (Clock::now() < next_look) continue;
    next_look = Clock::now() + kLookAgain;
    if (const std::string what = stopped.look(num_signals_ > 0 || growing_); !what.empty()) {
      history_.note("stopped_processes", what);
      say(what);
    }
    if (!may_grow(attempt)) continue;
    growing_ = true;
    say("more ranks can run: the job saves a checkpoint, stops, and restarts with them");
    job.send(SIGUSR1);
  }
  output.show_rest();
  // Ranks end when mpirun is gone, and their records then do not show the cause.
  if (job.ending_signal() != 0 && !killed_mpirun && num_signals_ <= 1)
    end.announce(record_of(RunRecord::Event::kVerdict,
                           Error(ErrorCode::kRuntime, "mpirun (process {}) was ended by signal {} ({})",
                                 job.process(), job.ending_signal(), strsignal(job.ending_signal()))));
  end_tagged(attempt.tag, kTimeToFollow);
  AttemptFolder(attempt.tag).remove();
  output.show_rest();
}

std::unique_ptr<JobProcess> Supervisor::start_attempt(const Attempt& attempt, const fs::path& log) {
  const fs::path host_file = out_.root / "attempts" / fmt::format("attempt-{:04}.hosts", attempt.number);
  // Written first: if this process dies at any time, the next supervisor knows the tag.
  history_.begin(attempt);
  const AttemptFolder folder(attempt.tag);
  std::vector<std::string> options;
  if (!hosts_) options = folder.make(options_.mpirun_options);
  std::unique_ptr<JobProcess> job;
  try {
    disk_.until_written([&] {
      history_.flush();
      if (hosts_) write_hosts(host_file, place_.hosts.used);
      job = std::make_unique<JobProcess>(
          JobProcess::Options{.command = command(host_file, options), .log = log, .tag = attempt.tag});
    });
  } catch (...) {
    folder.remove();
    throw;
  }
  if (!job) folder.remove();
  return job;
}

bool Supervisor::run_attempt() {
  const int number = history_.next_number();
  const fs::path log = out_.root / "attempts" / fmt::format("attempt-{:04}.log", number);
  const auto newest = CheckpointStore(out_.checkpoints()).latest(Verify::kSizes);
  Attempt attempt{.number = number,
                  .num_ranks = place_.num_ranks,
                  .hosts = names_of(place_.hosts.used),
                  .first_step = newest ? newest->manifest.step + 1 : 1,
                  .tag = fmt::format("{}#{}", writer_mark(), number)};
  say(fmt::format("attempt {}: {} rank(s), from step {}{}{}", number, place_.num_ranks, attempt.first_step,
                  describe_place(), describe_limit()));
  const auto start = Clock::now();
  const std::unique_ptr<JobProcess> job = start_attempt(attempt, log);
  if (!job) return false;
  history_.set_process(job->mark());
  growing_ = false;
  seen_slots_ = 0;
  AttemptEnd found(attempt, out_, history_, hosts_.get());
  watch(*job, attempt, log, found);
  Attempt::End end = found.conclude(*job->poll(), log, num_signals_ > 0);
  found.records().remove_host_folder();
  end.seconds = Seconds(Clock::now() - start).count();
  history_.end(end);
  return true;
}

bool Supervisor::wait(std::chrono::milliseconds delay) {
  const auto until = Clock::now() + delay;
  while (Clock::now() < until) {
    if (inbox_.take() != 0) return false;
    lease_->renew();
    std::this_thread::sleep_for(kRestartPoll);
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
  try {
    history_.flush();
  } catch (const Error& error) {
    say(fmt::format("cannot write the end of the history: {}", error.what()));
  }
  return code;
}

ExitCode Supervisor::run() {
  const Decision stopped{.kind = Decision::Kind::kStopped, .reason = "stopped before a restart"};
  while (true) {
    if (!run_attempt()) return finish(stopped);
    Decision decision = decide(history_.attempts(), {.max_restarts = options_.max_restarts,
                                                     .stop_requested = num_signals_ > 0 || time_is_up()});
    if (decision.kind != Decision::Kind::kRestart) return finish(decision);
    history_.note("restart", decision.reason);
    say(fmt::format("{}; restarting in {:.1f} s", decision.reason, Seconds(decision.delay).count()));
    if (!wait(decision.delay)) return finish(stopped);
    try {
      // Probe first: waiting for the disk is no attempt.
      const auto probe = [&] {
        prepare_output_folder(out_.root);
        if (decision.after_disk_failure) check_room_for_checkpoint(out_.checkpoints());
      };
      if (!disk_.until_written(probe)) return finish(stopped);
      place_ = choose_place();
    } catch (const Error& error) {
      return finish({.kind = Decision::Kind::kGiveUp, .reason = error.what()});
    }
  }
}

}  // namespace trireme
