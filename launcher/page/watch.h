// The live page: runs that are followed, and their news as server-sent events.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/observe/http_server.h"
#include "launcher/page/run_reader.h"

namespace trireme {

/// [Note: news of runs] News have numbers. A page takes everything once, with the number of the last news in
/// it, and then follows from there. The newest are kept; who is further behind, or comes from another server,
/// is told to take everything again ("reset"). So no client, slow or many, costs more than these.
class Watch {
 public:
  explicit Watch(const std::vector<std::filesystem::path>& folders);

  /// Answers "/", "/data" and "/events"; of the server's thread, as look().
  HttpAnswer answer(const HttpRequest& request);
  /// Reads on in all runs.
  void look();

 private:
  static constexpr std::size_t kMaxNews = 1000;

  void tell(const std::string& kind, const std::string& data);
  std::string number_text(std::uint64_t number) const;
  std::string news_after(std::uint64_t& number) const;
  HttpAnswer everything();
  HttpAnswer follow(const std::string& after);

  struct Run {
    RunReader reader;
    std::string name, state;  // the state that was told last
  };
  std::vector<Run> runs_;
  std::string mark_;  // of this server: its numbers are not another's
  std::uint64_t last_number_ = 0;
  std::deque<std::string> news_;  // the last of them is last_number_
};

}  // namespace trireme
