// The live page: runs that are followed, and their news as server-sent events. Runs that appear in the
// folders that were named are found, those whose folders are gone are dropped.
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

/// [Note: news of runs] News have numbers. A page takes everything once, with the number of the last news in
/// it, and then follows from there. The newest are kept; who is further behind, or comes from another server,
/// is told to take everything again ("reset"). Everything is written once for all who ask between two looks.
/// So no client, slow or many, costs more than these.
class Watch {
 public:
  /// Of the arguments of find_runs(), in whose folders new runs are looked for every `search_every`. Throws
  /// what it throws; a folder without runs is none that is refused.
  explicit Watch(std::vector<std::string> arguments,
                 std::chrono::milliseconds search_every = std::chrono::seconds(3));

  /// A server of this page, which outlives it.
  HttpServer::Options served_at(const std::string& address);
  /// Answers "/", "/data" and "/events"; of the server's thread, as look().
  HttpAnswer answer(const HttpRequest& request);
  /// Reads on in all runs.
  void look();
  std::size_t num_runs() const { return runs_.size(); }

 private:
  static constexpr std::size_t kMaxNews = 1000, kMaxNewsBytes = std::size_t{4} << 20;
  static constexpr std::size_t kMaxTextBytes = std::size_t{256}
                                               << 10;  // after which no more is put in one text

  void search();
  void add_run(const std::filesystem::path& folder);
  void tell(const std::string& kind, const std::string& data);
  std::string number_text(std::uint64_t number) const;
  std::string news_after(std::uint64_t& number) const;
  HttpAnswer everything();
  HttpAnswer follow(const std::string& after);

  struct Run {
    RunReader reader;
    std::string name, state;  // the state that was told last
    RunFiles files = {};      // when it was read
  };
  const std::vector<std::string> arguments_;
  const std::chrono::milliseconds search_every_;
  std::chrono::steady_clock::time_point searched_;
  std::vector<Run> runs_;
  bool left_some_out_ = false;
  std::string mark_;  // of this server: its numbers are not another's
  std::uint64_t last_number_ = 0;
  std::deque<std::string> news_;  // the last of them is last_number_
  std::size_t news_bytes_ = 0;
  std::shared_ptr<const std::string> page_, everything_;
  std::uint64_t everything_number_ = 0;  // last_number_ when everything_ was written
};

}  // namespace trireme
