import java.util.List;
import java.util.Objects;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.FeaturesApi;
import org.openapitools.client.api.ListsApi;
import org.openapitools.client.model.AddItemsInput;
import org.openapitools.client.model.FeatureInput;
import org.openapitools.client.model.ItemInput;
import org.openapitools.client.model.RemovalBound;
import org.openapitools.client.model.RemoveItemsInput;
import org.openapitools.client.model.RemoveSinceInput;
import org.openapitools.client.model.RemoveUntilInput;
import org.openapitools.client.model.RemoveValueInput;
import org.openapitools.client.model.ValueType;

/** Works with lists through the client that openapi-generator makes in Java: Generated URL. */
public class Generated {
    static void expect(String what, Object seen, Object expected) {
        if (!Objects.equals(String.valueOf(seen), String.valueOf(expected))) {
            throw new AssertionError(what + ": " + seen + ", expected " + expected);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient().setBasePath(arguments[0]);
        FeaturesApi features = new FeaturesApi(client);
        ListsApi lists = new ListsApi(client);
        String type = "generated", name = "numbers", entity = "a/b é";
        long value = 9007199254740993L, now = System.currentTimeMillis() * 1_000_000;

        FeatureInput feature = new FeatureInput().entityType(type).name(name).valueType(ValueType.INT64).ttl("7300d");
        expect("created", features.createFeature(feature, null, null, null).getName(), name);
        // A timestamp is an integer or a text.
        AddItemsInput items = new AddItemsInput();
        for (Object at : new Object[] {now, String.valueOf(now - 1), "2024-08-29T00:00:00Z"}) {
            items.addItemsItem(new ItemInput().timestamp(at).value(value));
        }
        expect("added", lists.addItems(type, name, entity, items, null, null, null).getAdded(), 3);
        // Gson reads a number of unknown type as a double, so the value is read as digits.
        Object read = lists.getItems(type, name, entity, null, null, null, null, null, 1, null, "string", null, null, null)
            .getItems().get(0).getValue();
        expect("the value", read, value);
        List<RemoveItemsInput> forms = List.of(
            new RemoveItemsInput(new RemoveUntilInput().maxTimestamp(new RemovalBound("2024-08-29T00:00:00Z"))),
            new RemoveItemsInput(new RemoveSinceInput().minTimestamp(new RemovalBound(now)).maxTimestamp(new RemovalBound(now))),
            new RemoveItemsInput(new RemoveValueInput().value(value)));
        for (RemoveItemsInput form : forms) {
            expect("removed", lists.removeItems(type, name, entity, form, null, null, null).getRemoved(), 1);
        }
        try {
            lists.getItems(type, "none", entity, null, null, null, null, null, null, null, null, null, null, null);
            throw new AssertionError("a missing feature was found");
        } catch (ApiException refused) {
            expect("a missing feature", refused.getCode(), 404);
        }
        features.deleteFeature(type, name, null, null, null, null);
        client.getHttpClient().dispatcher().executorService().shutdown();
        client.getHttpClient().connectionPool().evictAll();
    }
}
