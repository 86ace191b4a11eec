# Sidekiq, as Debian has it, used as its documentation does: jobs that run at once, later and again. Each check ends the
# program where it fails. With "worker" as the second argument it is the file of jobs that the program `sidekiq` loads.

require "sidekiq"
require "sidekiq/api"
require "tmpdir"

ADDRESS = ENV.fetch("SIDEKIQ_ADDRESS") { ARGV.fetch(1) }
URL = "redis://#{ADDRESS}/0"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  # Scheduled jobs are looked for by a script, every so often.
  config.options[:average_scheduled_poll_interval] = 1
  config.options[:poll_interval_average] = 1
end

class Noting
  include Sidekiq::Worker
  sidekiq_options retry: 2
  sidekiq_retry_in { 1 }

  def perform(what, fails = 0)
    tries = Sidekiq.redis { |redis| redis.incr("tries:#{what}") }
    raise "on purpose" if tries <= fails
    Sidekiq.redis { |redis| redis.rpush("done", what) }
  end
end

class Program
  def initialize
    @checks = 0
  end

  def check(what, got, wanted)
    @checks += 1
    abort "FAILED: #{what}: #{got.inspect}, and not #{wanted.inspect}" unless got == wanted
  end

  def eventually(what)
    deadline = Time.now + 40
    until yield
      abort "FAILED: never: #{what}" if Time.now > deadline
      sleep 0.05
    end
    @checks += 1
  end

  def redis(&block)
    Sidekiq.redis(&block)
  end

  def run
    20.times { |number| Noting.perform_async("at once #{number}") }
    began = Time.now
    Noting.perform_in(2, "later")
    Noting.perform_async("again", 1)
    Noting.perform_async("never", 99)
    Sidekiq::Client.push_bulk("class" => Noting, "args" => (1..30).map { |number| ["bulk #{number}"] })
    check("a scheduled job waits", Sidekiq::ScheduledSet.new.size, 1)
    check("queued jobs", Sidekiq::Queue.new.size, 52)
    deleted = Noting.perform_in(3600, "deleted")
    check("a scheduled job is found by its id", Sidekiq::ScheduledSet.new.find_job(deleted).args, ["deleted"])
    Sidekiq::ScheduledSet.new.find_job(deleted).delete
    with_workers do
      eventually("jobs that run at once, and in bulk") { redis { |one| one.llen("done") } >= 50 }
      eventually("a job that was scheduled") { done.include?("later") }
      check("it was late", Time.now - began >= 2, true)
      eventually("a job that failed once") { done.include?("again") }
      eventually("a job that fails for good is dead") { Sidekiq::DeadSet.new.size == 1 }
    end
    check("each job ran once", done.tally.values.uniq, [1])
    check("all of them", done.size, 52)
    stats = Sidekiq::Stats.new
    check("what was processed", stats.processed, 52 + 4)
    check("what has failed", stats.failed, 4)
    puts "ok #{@checks}"
  end

  def done
    redis { |one| one.lrange("done", 0, -1) }
  end

  def with_workers
    environment = { "SIDEKIQ_ADDRESS" => ADDRESS }
    command = ["sidekiq", "-r", File.expand_path(__FILE__), "-c", "4", "-t", "5"]
    worker = spawn(environment, *command, out: File::NULL, err: File::NULL, chdir: Dir.tmpdir)
    yield
  ensure
    Process.kill("TERM", worker)
    Process.wait(worker)
  end
end

Program.new.run unless ENV["SIDEKIQ_ADDRESS"]
