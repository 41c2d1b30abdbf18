// The live page: follows runs and sends their news as server-sent events. New runs in the given folders are
// added; runs whose folders are gone are removed.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/observe/http_server.h"
#include "launcher/page/run_reader.h"
#include "launcher/page/run_state.h"

namespace trireme {

/// [Note: news of runs] News are numbered. A page loads everything once, with the number of the latest news
/// included, and then follows from that number. The newest news are kept. A client that is further behind, or
/// comes from another server, is sent "reset" and loads everything again. The text of everything is built
/// once between two polls and shared by all clients, so neither slow nor many clients cost more.
class Watch {
 public:
  /// `arguments`: as for find_runs(). Their folders are searched for new runs every `search_every`.
  /// Throws what find_runs() throws, but accepts a folder without runs.
  explicit Watch(std::vector<std::string> arguments,
                 std::chrono::milliseconds search_every = std::chrono::seconds(3));

  /// Options of a server of this page. The Watch must outlive the server.
  HttpServer::Options served_at(const std::string& address);
  /// Answers "/", "/data" and "/events". Call from the server's thread only, like look().
  HttpAnswer answer(const HttpRequest& request);
  /// Polls all runs.
  void look();
  std::size_t num_runs() const { return runs_.size(); }

 private:
  static constexpr std::size_t kMaxNews = 1000, kMaxNewsBytes = std::size_t{4} << 20;
  // No news are added to a text that is longer.
  static constexpr std::size_t kMaxTextBytes = std::size_t{256} << 10;

  void search();
  void add_run(const std::filesystem::path& folder);
  void tell(const std::string& kind, const std::string& data);
  std::string number_text(std::uint64_t number) const;
  std::string news_after(std::uint64_t& number) const;
  HttpAnswer everything();
  HttpAnswer follow(const std::string& after);

  struct Run {
    RunReader reader;
    std::string name, state;  // the state that was sent last
    RunFiles files = {};      // when the state was read
    RunFiles pictures = {};   // when everything was sent last
  };
  const std::vector<std::string> arguments_;
  const std::chrono::milliseconds search_every_;
  std::chrono::steady_clock::time_point searched_;
  std::vector<Run> runs_;
  bool left_some_out_ = false;
  std::string mark_;  // of this server: other servers number their news differently
  std::uint64_t last_number_ = 0;
  std::deque<std::string> news_;  // the newest has number last_number_
  std::size_t news_bytes_ = 0;
  std::shared_ptr<const std::string> page_, everything_;
  std::uint64_t everything_number_ = 0;  // last_number_ when everything_ was written
};

}  // namespace trireme
