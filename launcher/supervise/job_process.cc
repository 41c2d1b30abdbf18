#include "launcher/supervise/job_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "launcher/host/env.h"
#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kProcessPoll = std::chrono::milliseconds(20);

/// Arguments of posix_spawn(), released at the end.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(const fs::path& log) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW, 0666);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

bool has_tag(int process, const std::string& variable) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  const std::string text = '\0' + content.str();
  return text.find('\0' + variable + '\0') != std::string::npos;
}

bool is_alive(int process) {
  return writer_state(writer_mark(process)) == WriterState::kAlive;
}

}  // namespace

JobProcess::JobProcess(const Options& options) : tag_(options.tag) {
  std::vector<char*> arguments;
  arguments.reserve(options.command.size() + 1);
  for (const std::string& word : options.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const SpawnSettings settings(options.log);
  set_environment_variable(kAttemptVariable, tag_.c_str());
  const int error =
      posix_spawnp(&process_, arguments[0], &settings.files, &settings.attributes, arguments.data(), environ);
  if (is_disk_failure(error))
    throw Error(ErrorCode::kRuntime, "cannot write {}: {}", options.log.string(), std::strerror(error));
  TRIREME_CHECK(error == 0, "cannot start {}: {}; --mpirun PATH says where it is", options.command[0],
                std::strerror(error));
  mark_ = writer_mark(process_);
}

JobProcess::~JobProcess() {
  if (exit_code_) return;
  send(SIGTERM);
  end_tagged(tag_, std::chrono::seconds(3));
  waitpid(process_, nullptr, 0);
}

void JobProcess::send(int signal) const {
  if (!exit_code_) kill(process_, signal);  // not reaped yet, so its process id is still valid
}

std::optional<int> JobProcess::poll() {
  int status = 0;
  if (!exit_code_ && waitpid(process_, &status, WNOHANG) == process_) {
    if (WIFSIGNALED(status)) ending_signal_ = WTERMSIG(status);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return exit_code_;
}

std::vector<int> tagged_processes(const std::string& tag) {
  const std::string variable = fmt::format("{}={}", kAttemptVariable, tag);
  std::vector<int> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const int process = std::stoi(name);
    if (process != getpid() && has_tag(process, variable) && is_alive(process)) found.push_back(process);
  }
  return found;
}

int end_tagged(const std::string& tag, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  std::vector<int> left = tagged_processes(tag);
  while (!left.empty() && Clock::now() < until) {
    std::this_thread::sleep_for(kProcessPoll);
    left = tagged_processes(tag);
  }
  const auto ended = static_cast<int>(left.size());
  // Repeat until none is left: a process that was being created may have been missed.
  for (int round = 0; round < 250 && !left.empty(); ++round) {
    for (const int process : left) kill(process, SIGKILL);
    std::this_thread::sleep_for(kProcessPoll);
    left = tagged_processes(tag);
  }
  return ended;
}

}  // namespace trireme
