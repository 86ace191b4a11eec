<?php
// Laravel's queue, as Debian has it, on its own connection to Redis: what its worker takes, releases and deletes by
// scripts. Each check ends the program where it fails.

require '/usr/share/php/Illuminate/Queue/autoload.php';
require '/usr/share/php/Illuminate/Redis/autoload.php';
require '/usr/share/php/Illuminate/Container/autoload.php';

use Illuminate\Container\Container;
use Illuminate\Queue\RedisQueue;
use Illuminate\Redis\Limiters\ConcurrencyLimiterBuilder;
use Illuminate\Redis\Limiters\DurationLimiterBuilder;
use Illuminate\Redis\RedisManager;

[, $library, $address] = $argv;
[$host, $port] = explode(':', $address);
$checks = 0;

function check($what, $got, $wanted)
{
    global $checks;
    $checks++;
    if ($got !== $wanted) {
        fwrite(STDOUT, "FAILED: $what: " . var_export($got, true) . ', and not ' . var_export($wanted, true) . "\n");
        exit(1);
    }
}

class Job
{
    public $number;

    public function __construct($number)
    {
        $this->number = $number;
    }
}

$container = new Container();
$manager = new RedisManager($container, 'phpredis', [
    'options' => ['prefix' => 'laravel_'],
    'default' => ['host' => $host, 'port' => (int) $port, 'database' => 0],
]);
$queue = new RedisQueue($manager, 'default', 'default', 2);
$queue->setContainer($container);

$numberOf = fn ($job) => unserialize($job->payload()['data']['command'])->number;
foreach (range(1, 10) as $number) {
    $queue->push(new Job($number));
}
check('size', $queue->size(), 10);
$taken = [];
while ($job = $queue->pop()) {
    $taken[] = $numberOf($job);
    check('attempts', $job->attempts(), 1);
    $job->delete();
}
check('first in, first out', $taken, range(1, 10));
$queue->later(1, new Job(11));
check('a delayed job counts', $queue->size(), 1);
check('it is not there yet', $queue->pop(), null);
sleep(2);
$late = $queue->pop();
check('it is there now', $numberOf($late), 11);
$late->release(0);
sleep(1);
$again = $queue->pop();
check('a job that was released', [$numberOf($again), $again->attempts()], [11, 2]);
// Nobody deletes it: it comes again when the time for it is over.
sleep(4);
$expired = $queue->pop();
check('a job whose worker is gone', [$numberOf($expired), $expired->attempts()], [11, 3]);
$expired->delete();
check('all done', $queue->size(), 0);
$queue->push(new Job(12));
check('clear', $queue->clear('default'), 1);

$connection = $manager->connection();
$limited = [];
foreach (range(1, 5) as $number) {
    (new DurationLimiterBuilder($connection, 'rate'))->allow(3)->every(60)->block(0)
        ->then(function () use (&$limited) { $limited[] = 'yes'; }, function () use (&$limited) { $limited[] = 'no'; });
}
check('three a minute', $limited, ['yes', 'yes', 'yes', 'no', 'no']);
$nested = [];
(new ConcurrencyLimiterBuilder($connection, 'funnel'))->limit(1)->releaseAfter(60)->block(0)->then(function () use ($connection, &$nested) {
    $nested[] = 'outer';
    (new ConcurrencyLimiterBuilder($connection, 'funnel'))->limit(1)->block(0)
        ->then(function () use (&$nested) { $nested[] = 'inner'; }, function () use (&$nested) { $nested[] = 'refused'; });
});
check('one at a time', $nested, ['outer', 'refused']);
(new ConcurrencyLimiterBuilder($connection, 'funnel'))->limit(1)->block(0)->then(function () use (&$nested) { $nested[] = 'free'; });
check('it was released', $nested, ['outer', 'refused', 'free']);
echo "ok $checks\n";
