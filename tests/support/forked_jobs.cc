#include "tests/support/forked_jobs.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>

namespace trireme::testing {
namespace {

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0) _exit(1);
    done += static_cast<std::size_t>(written);
  }
}

// Runs every `stride`-th job in a child process. After a crash, a new child continues with the next job.
class Lane {
 public:
  Lane(std::size_t first, std::size_t stride, std::vector<std::string>& results,
       const std::function<std::string(std::size_t)>& job)
      : next_(first), stride_(stride), results_(results), job_(job) {
    start();
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { stop(SIGKILL); }

  bool finished() const { return fd_ < 0; }
  int fd() const { return fd_; }

  // Reads the child's results, or detects its end.
  void read_results() {
    char buffer[4096];
    const ssize_t count = read(fd_, buffer, sizeof buffer);
    if (count <= 0) return lose("died by ", stop(0));
    unread_.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
      results_[next_] = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      next_ += stride_;
    }
    if (next_ >= results_.size()) stop(0);
  }

  void give_up(int seconds) {
    stop(SIGKILL);
    lose(fmt::format("died after {} s without an end", seconds), "");
  }

 private:
  void start() {
    unread_.clear();
    if (next_ >= results_.size()) return;
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe for a child process");
    std::fflush(nullptr);
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("no child process");
    if (child_ == 0) {
      close(ends[0]);
      work(ends[1]);
    }
    close(ends[1]);
    fd_ = ends[0];
  }

  [[noreturn]] void work(int fd) const {
    for (std::size_t i = next_; i < results_.size(); i += stride_) {
      try {
        write_all(fd, job_(i) + '\n');
      } catch (const std::exception& error) {
        write_all(fd, std::string("died of an exception: ") + error.what() + '\n');
      }
    }
    _exit(0);
  }

  void lose(const std::string& how, const std::string& more) {
    results_[next_] = how + more;
    next_ += stride_;
    start();
  }

  // Ends the child, with a signal unless it is 0, and returns how it ended.
  std::string stop(int signal) {
    if (fd_ < 0) return "";
    if (signal != 0) kill(child_, signal);
    close(fd_);
    fd_ = -1;
    int status = 0;
    waitpid(child_, &status, 0);
    return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit status {}", WEXITSTATUS(status));
  }

  std::size_t next_;
  const std::size_t stride_;
  std::vector<std::string>& results_;
  const std::function<std::string(std::size_t)>& job_;
  std::string unread_;
  pid_t child_ = -1;
  int fd_ = -1;
};

}  // namespace

std::vector<std::string> run_forked(std::size_t count, const std::function<std::string(std::size_t)>& job,
                                    const ForkOptions& options) {
  std::vector<std::string> results(count);
  const auto stride = static_cast<std::size_t>(options.children);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (std::size_t k = 0; k < stride; ++k) lanes.push_back(std::make_unique<Lane>(k, stride, results, job));
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Lane*> waiting;
    for (const auto& lane : lanes) {
      if (lane->finished()) continue;
      waits.push_back({.fd = lane->fd(), .events = POLLIN, .revents = 0});
      waiting.push_back(lane.get());
    }
    if (waits.empty()) return results;
    // Lanes that are silent while others write get the same time as the others.
    if (poll(waits.data(), waits.size(), options.seconds * 1000) == 0) {
      for (Lane* lane : waiting) lane->give_up(options.seconds);
      continue;
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) waiting[i]->read_results();
    }
  }
}

}  // namespace trireme::testing
