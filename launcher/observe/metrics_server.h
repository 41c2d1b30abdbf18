// Serves a text over HTTP, under /metrics: what Prometheus scrapes.
//
// [Note: a server beside the training] One thread of the lowest priority answers, on whatever core the rank
// leaves it. It never waits for a client: at most kMaxConnections are open at once, the rest waits in the
// system, and each is closed after its answer, or when it has taken longer than kMaxSeconds. So clients, slow
// or many, cost the training nothing that it would notice.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace trireme {

class MetricsServer {
 public:
  static constexpr unsigned kMaxConnections = 32;
  static constexpr int kMaxSeconds = 5;

  /// Listens at `address` (listen_address.h) from now on; `text` is called for each answer, by the server's
  /// thread. Throws Error(kInvalidInput) naming log.listen where it cannot: a port that is taken.
  MetricsServer(const std::string& address, std::function<std::string()> text);
  /// Closes all connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// "http://127.0.0.1:9464/metrics", with the port that was taken.
  const std::string& url() const;
  /// False: other machines may reach it.
  bool is_loopback() const;

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trireme
