// Overridable: a value that scopes replace for their lifetimes. Scopes may end in any order.
#pragma once
#include <utility>

namespace gemel {

/// Holds the value of the newest living scope, or the initial value without one.
template <class T>
class Overridable {
 public:
  explicit Overridable(T value) : value_(std::move(value)) {}
  Overridable(const Overridable&) = delete;
  Overridable& operator=(const Overridable&) = delete;
  /// Detaches scopes that outlive this object.
  ~Overridable() {
    for (Scope* s = top_; s; s = s->below_) s->of_ = nullptr;
  }
  const T& operator*() const { return value_; }

  class Scope {
   public:
    Scope(Overridable& of, T value) : of_(&of), before_(std::exchange(of.value_, std::move(value))), below_(std::exchange(of.top_, this)) {
      if (below_) below_->above_ = this;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    /// Restores the previous value. A scope that is not the newest hands the value to the scope above it.
    ~Scope() {
      if (!of_) return;
      (above_ ? above_->before_ : of_->value_) = std::move(before_);
      (above_ ? above_->below_ : of_->top_) = below_;
      if (below_) below_->above_ = above_;
    }

   private:
    friend class Overridable;
    Overridable* of_;
    T before_;
    Scope *below_, *above_ = nullptr;
  };

 private:
  T value_;
  Scope* top_ = nullptr;
};

}  // namespace gemel
