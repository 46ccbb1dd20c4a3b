// NvidiaCards: power and utilisation of NVIDIA's cards by their management library (NVML), which is opened at run time where it is installed.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gemel {

class NvidiaCards {
 public:
  /// Without the library or a card, `count` is 0. @param library  its name or path
  explicit NvidiaCards(const std::string& library = "libnvidia-ml.so.1");
  ~NvidiaCards();
  NvidiaCards(const NvidiaCards&) = delete;
  NvidiaCards& operator=(const NvidiaCards&) = delete;

  int count() const;
  /// Why `count` is 0; empty otherwise.
  const std::string& why_none() const { return why_none_; }
  std::string name(int card) const;
  /// Power that a card draws now, in watts; empty where it does not tell.
  std::optional<double> watts(int card) const;
  /// Energy that a card has used since its driver was loaded, in joules; empty for cards before Volta, which do not count it.
  std::optional<double> joules(int card) const;
  /// Share of the last sampling period, 0 to 1, in which a kernel ran on the busiest card; empty where no card tells.
  std::optional<double> utilisation() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::string why_none_;
};

}  // namespace gemel
