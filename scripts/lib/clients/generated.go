// Works with lists through the client that openapi-generator makes in Go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"liststore.example/check/api"
)

func must[T any](value T, response *http.Response, err error) T {
	if err != nil {
		panic(fmt.Sprint(err, response))
	}
	return value
}

func expect(what string, seen, expected any) {
	if fmt.Sprint(seen) != fmt.Sprint(expected) {
		panic(fmt.Sprintf("%s: %v, expected %v", what, seen, expected))
	}
}

func main() {
	settings := api.NewConfiguration()
	settings.Servers = api.ServerConfigurations{{URL: os.Args[1]}}
	client, ctx, now := api.NewAPIClient(settings), context.Background(), time.Now().UnixNano()
	lists, features := client.ListsAPI, client.FeaturesAPI
	entity, value := "a/b é", int64(9007199254740993)

	for name, kind := range map[string]api.ValueType{"numbers": "int64", "members": "string"} {
		input := api.NewFeatureInput("generated", name, "7300d", kind)
		if name == "members" {
			input.SetIdentity("key")
		}
		expect("created", must(features.CreateFeature(ctx).FeatureInput(*input).Execute()).Name, name)
	}

	// A timestamp is an integer or a text.
	var items []api.ItemInput
	for _, at := range []any{now, fmt.Sprint(now - 1), "2024-08-29T00:00:00Z"} {
		items = append(items, *api.NewItemInput(at, value))
	}
	add := lists.AddItems(ctx, "generated", "numbers", entity).AddItemsInput(*api.NewAddItemsInput(items))
	expect("added", must(add.Execute()).Added, 3)
	// Go reads a number of unknown type as a double, so the value is read as digits.
	page := must(lists.GetItems(ctx, "generated", "numbers", entity).Int64As("string").Limit(1).Execute())
	expect("the value", page.Items[0].Value, fmt.Sprint(value))
	request := api.NewGetRequest(entity, "generated", "numbers")
	request.SetAsOf(now)
	missing := api.NewGetRequest(entity, "generated", "none")
	input := api.NewBatchGetInput([]api.GetRequest{*request, *missing})
	results := must(lists.BatchGet(ctx).Int64As("string").BatchGetInput(*input).Execute()).Results
	expect("the first page", results[0].ItemPage.Items[0].Value, fmt.Sprint(value))
	expect("the second problem", results[1].RequestFailed.Problem.Code, "feature_not_found")

	item := api.NewItemInput(now, "v")
	item.SetKey("k")
	add = lists.AddItems(ctx, "generated", "members", entity).AddItemsInput(*api.NewAddItemsInput([]api.ItemInput{*item}))
	expect("added", must(add.Execute()).Added, 1)
	keys := api.LookupKeysInputAsLookupInput(api.NewLookupKeysInput([]string{"k", "none"}))
	found := must(lists.LookupItems(ctx, "generated", "members", entity).LookupInput(keys).Execute()).Results
	expect("the found item", found[0].Value, "v")
	expect("no item", found[1] == nil, true)

	early := "2024-08-29T00:00:00Z"
	until := api.RemoveItemsInput{RemoveUntilInput: api.NewRemoveUntilInput(api.StringAsRemovalBound(&early))}
	since := api.NewRemoveSinceInput(api.Int64AsRemovalBound(&now))
	since.SetMaxTimestamp(api.Int64AsRemovalBound(&now))
	between := api.RemoveItemsInput{RemoveSinceInput: since}
	ofValue := api.RemoveItemsInput{RemoveValueInput: api.NewRemoveValueInput(value)}
	for _, form := range []api.RemoveItemsInput{until, between, ofValue} {
		removed := must(lists.RemoveItems(ctx, "generated", "numbers", entity).RemoveItemsInput(form).Execute())
		expect("removed", removed.Removed, 1)
	}
	_, response, err := lists.GetItems(ctx, "generated", "none", entity).Execute()
	expect("a missing feature", err != nil && response.StatusCode == http.StatusNotFound, true)
	for _, name := range []string{"numbers", "members"} {
		must(features.DeleteFeature(ctx, "generated", name).Execute())
	}
}
