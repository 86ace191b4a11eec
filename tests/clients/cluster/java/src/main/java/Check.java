import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;

/** What both programs have in common: keys, and checks that end the program where they fail. */
final class Check {
    static final List<String> KEYS = IntStream.range(100, 200).mapToObj(number -> "key:" + number).toList();
    private static int checks = 0;

    static void equal(String what, Object got, Object wanted) {
        checks += 1;
        if (!Objects.equals(got, wanted)) {
            System.out.println("FAILED: " + what + ": " + got + ", and not " + wanted);
            System.exit(1);
        }
    }

    static void end() {
        System.out.println("ok " + checks);
        System.exit(0);
    }
}
